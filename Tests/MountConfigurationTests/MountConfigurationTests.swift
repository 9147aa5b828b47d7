import Destinations
import FileModel
import Foundation
import MountConfiguration
import Promises
import Testing
import Threads
import TransferModel

/// The two settings without which there is no mount.
private let least: [Setting: String] = [.to: "https://upload.example.org", .spool: "/var/spool/captures"]

private func configuration(
  flags: [Setting: String] = [:], environment: [String: String] = [:], file: String? = nil
) throws -> MountConfiguration {
  var sources = SettingSources()
  sources.add(flags: flags)
  try sources.add(environment: environment)
  if let file { try sources.add(file: file, path: "/etc/uploadfs/mount.yaml") }
  return try MountConfiguration(sources)
}

/// Two pins, in the form that curl has.
private let pins = [
  "sha256//AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "sha256//AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=",
]

/// The one that these settings make wherever they are given.
private func configurationFromEachPlace(_ values: [Setting: String]) throws -> MountConfiguration {
  let read = try configuration(flags: values)
  let variables = values.map { ($0.key.environmentName, $0.value) }
  #expect(try configuration(environment: Dictionary(uniqueKeysWithValues: variables)) == read)
  let lines = values.map { "\($0.key.rawValue): \"\($0.value)\"" }
  #expect(try configuration(file: lines.joined(separator: "\n")) == read)
  return read
}

/// The sentence that a configuration is refused with; an empty text when it is accepted.
private func refusal(
  flags: [Setting: String] = least, environment: [String: String] = [:], file: String? = nil
) -> String {
  do {
    _ = try configuration(flags: flags, environment: environment, file: file)
    return ""
  } catch {
    return "\(error)"
  }
}

extension MountConfiguration {
  fileprivate var s3: S3Settings? { if case .s3(let settings) = settings { settings } else { nil } }
  fileprivate var form: FormSettings? { if case .form(let settings) = settings { settings } else { nil } }
  fileprivate var tus: TusSettings? { if case .tus(let settings) = settings { settings } else { nil } }
}

@Suite struct MountConfigurationTests {
  @Test func defaults_areThoseOfTheSpecification() throws {
    let configuration = try configuration(flags: least)
    #expect(configuration.destination.text == "https://upload.example.org")
    #expect(configuration.spool == "/var/spool/captures")
    #expect(configuration.chunkBytes == UploadConstants.chunkBytesDefault)
    #expect(configuration.parallel == UploadConstants.maxParallelChunkUploads)
    #expect(configuration.reserveBytes == 205_000_000)
    #expect(configuration.fileBytesMax == 100_000_000_000)
    #expect(configuration.httpVersion == .automatic && configuration.congestion == .automatic)
    #expect(configuration.drainTimeout == nil)
    #expect(configuration.tokenFile == nil)
    #expect(!configuration.allowOther)
    #expect(!configuration.allowPlainHTTP)
    // Nothing passes the daemon unless it is asked for.
    #expect(configuration.passthrough == .off)
  }

  @Test func flag_winsOverEnvironment_winsOverFile() throws {
    let environment = ["UPLOADFS_PARALLEL": "5", "UPLOADFS_SPOOL": "/environment", "PATH": "/bin"]
    let file = "parallel: 3\nspool: /file\nto: https://file.example.org\nhttp: 2\n"
    let configuration = try configuration(flags: [.parallel: "7"], environment: environment, file: file)
    #expect(configuration.parallel == 7)
    #expect(configuration.spool == "/environment")
    #expect(configuration.destination.host == "file.example.org")
    #expect(configuration.httpVersion == .http2)
  }

  @Test func everySetting_canBeGivenInEachPlace() throws {
    let values: [Setting: String] = [
      .to: "https://a.example.org:8443/base/", .alsoTo: "https://b.example.org, https://10.0.0.5/x/", .spool: "/s",
      .tokenFile: "/t", .ca: "/c", .pin: "\(pins[0]); \(pins[1])", .transparency: "always", .transparencyLogs: "/l",
      .ifExists: "refuse", .upload: "on-close",
      .interrupted: "publish", .whenFull: "release", .ignore: "*.log; scratch/**",
      .temporary: "*.writing; incoming/**", .nameTemplate: "{date}/{name}",
      .rule: "*.mov close=wait to=main,archive; raw/** upload=never fsync=remote ",
      .destination: "archive to=https://c.example.org token-file=/u; cold to=s3+https://s3.example.org/cold parallel=2",
      .chunkSize: "1MiB", .parallel: "4", .reserve: "1 GB", .keep: "2d", .maxFileSize: "2GiB", .http: "1.1",
      .congestion: "BBR",
      .threads: "3", .limitRate: "20Mbit/s; 22:00-6:00 none; 08:00-18:00 2.5 MB/s", .uploadPriority: "lowest",
      .compress: "lz4",
      .passthrough: "read", .reading: "mapped", .allowOther: "true", .allowPlainHTTP: "yes", .drainTimeout: "90s",
      .logLevel: "debug", .expert: "retry-delay-max=30s; prefetch=5",
    ]
    #expect(
      Set(values.keys).union(Self.s3Values.keys).union(Self.formValues.keys).union(Self.tusValues.keys)
        .union([.tokenCommand])
        == Set(Setting.allCases),
      "a new setting needs a value in this test")
    let read = try configurationFromEachPlace(values)
    #expect(read.destination.text == "https://a.example.org:8443/base")
    #expect(read.trust.pins.map(\.description) == pins && read.trust.transparency == .always)
    #expect(read.trust.logListFile == "/l")
    #expect(read.ifExists == .refuse)
    #expect(read.alternatives.map(\.text) == ["https://b.example.org", "https://10.0.0.5/x"])
    #expect(read.chunkBytes == 1 << 20)
    #expect(read.rules.defaults.upload == .onClose && read.rules.defaults.interrupted == .publish)
    #expect(read.rules.rules.map(\.pattern.description) == ["*.log", "scratch/**", "*.mov", "raw/**"])
    #expect(read.rules.settings(for: RelativePath("raw/a.mov")).fsync == .remote)
    #expect(read.rules.defaults.name?.text == "{date}/{name}")
    #expect(read.temporaryNames.map(\.description) == ["*.writing", "incoming/**"])
    #expect(read.reserveBytes == 1_000_000_000)
    #expect(read.fileBytesMax == 2 << 30)
    #expect(read.drainTimeout == .seconds(90))
    #expect(read.timing.retryDelayMax == .seconds(30) && read.timing.prefetch == 5)
    #expect(read.keepDelivered == .seconds(172_800))
    #expect(read.logLevel == .debug && read.passthrough == .read && read.reading == .mapped)
    #expect(read.congestion == .bbr)
    #expect(
      read.rate
        == RateTimetable(
          bytesPerSecond: 2_500_000,
          windows: [
            .init(startMinute: 1320, endMinute: 360, bytesPerSecond: nil),
            .init(startMinute: 480, endMinute: 1080, bytesPerSecond: 2_500_000),
          ]))
    #expect(read.uploadPriority == .lowest && read.rules.defaults.compress == .lz4)
    #expect(read.further.map(\.name.text) == ["archive", "cold"])
    #expect(read.rules.settings(for: RelativePath("a.mov")).destinations.map(\.text) == ["main", "archive"])
  }

  @Test func pins_areEachDestinationsOwn_andTheListOfLogsIsForAll() throws {
    let flags: [Setting: String] = [
      .pin: pins[0], .transparencyLogs: "/l", .transparency: "always",
      .destination: "archive to=https://c.example.org; cold to=https://d.example.org pin=\(pins[1]) transparency=off",
    ]
    let further = try configuration(flags: least.merging(flags) { $1 }).further.map(\.configuration.trust)
    #expect(further.map { $0.pins.map(\.description) } == [[], [pins[1]]])
    #expect(further.map(\.transparency) == [.always, .off] && further.map(\.logListFile) == ["/l", "/l"])
  }

  @Test func whatAnUnencryptedServerCannotShow_isRefused() throws {
    let plain: [Setting: String] = [.to: "http://h", .spool: "/s", .allowPlainHTTP: "true"]
    let always: [Setting: String] = [.transparency: "always", .transparencyLogs: "/l"]
    for (settings, name) in [([.pin: pins[0]], "--pin"), (always, "--transparency")] {
      let said = refusal(flags: plain.merging(settings) { $1 })
      #expect(said.hasPrefix("\(name): http://h has no certificate"), "\(said)")
    }
    let lists: [Setting: String] = [.transparencyLogs: "/l"]
    #expect(try !configuration(flags: plain.merging(lists) { $1 }).destination.isEncrypted)
  }

  @Test func whatIsNoPolicy_isRefused() {
    for (setting, text, words) in [
      (Setting.pin, "", "is empty"), (.pin, "sha256//AQ==", "is no pin"), (.pin, "\(pins[0]);x", "“x” is no pin"),
      (.transparency, "always", "without a list of logs"), (.transparency, "on", "use one of public-only, always, off"),
    ] {
      let said = refusal(flags: least.merging([setting: text]) { $1 })
      #expect(said.contains(words) && said.contains(setting.flag), "\(said)")
    }
  }

  @Test(.promises("DE9", "DE10")) func furtherDestination_inheritsTheMountsSettings_butNoSecrets() throws {
    let flags: [Setting: String] = [
      .tokenFile: "/t", .ca: "/c", .parallel: "3", .maxFileSize: "1GB", .alsoTo: "https://b.example.org",
      .destination: "archive to=https://c.example.org; cold to=s3+https://s3.example.org/cold s3-region=nl ca=/d",
    ]
    let further = try configuration(flags: least.merging(flags) { $1 }).further.map(\.configuration)
    #expect(further.map(\.tokenFile) == [nil, nil] && further.map(\.alternatives.count) == [0, 0])
    #expect(further.map(\.authorityFile) == ["/c", "/d"])
    #expect(further.map(\.parallel) == [3, 3] && further.map(\.fileBytesMax) == [1_000_000_000, 1_000_000_000])
    #expect(further[1].s3?.region == "nl" && further[0].s3 == nil)
  }

  @Test(.promises("DE9")) func furtherDestination_inAFile_hasPathsFromThatFilesFolder() throws {
    let file = """
      to: https://a.example.org
      spool: /s
      destination:
        - archive to=https://c.example.org token-file=keys/my\\ token
      """
    let further = try configuration(file: file).further
    #expect(further.first?.configuration.tokenFile?.hasSuffix("/keys/my token") == true)
  }

  /// Regression: a value with a `;` could not be written.
  @Test func semicolonBehindABackslash_isPartOfItsValue() throws {
    let form: [Setting: String] = [
      .to: "form+https://h/p", .spool: "/s", .formExtra: #"note=a\;b; kind=c"#, .formOmit: #"x\;y;z"#,
      .destination: #"archive to=form+https://h/q form-success=ok\;done form-extra=note=d\;e form-extra=kind=f"#,
    ]
    let read = try configuration(flags: form)
    #expect(read.form?.fields == [try FormField("note=a;b"), try FormField("kind=c")])
    #expect(read.form?.omittedMembers == ["x;y", "z"])
    let further = try #require(read.further.first?.configuration.form)
    #expect(further.successText == "ok;done")
    #expect(further.fields == [try FormField("note=d;e"), try FormField("kind=f")])
  }

  @Test(.promises("DE163", "DE165")) func aFolderOfWebDAV_takesPasswordsAndTheRightToNames() throws {
    let read = try configuration(flags: [
      .to: "webdav+https://dav.example.org/a%20b/", .spool: "/s", .basicAuthFile: "/p", .ifExists: "refuse",
    ])
    guard case .webDAV(let settings) = read.settings else {
      Issue.record("\(read.settings)")
      return
    }
    #expect(settings.address.text == "webdav+https://dav.example.org/a%20b" && read.s3 == nil && read.form == nil)
    #expect(read.destination.text == "https://dav.example.org/a%20b" && read.ifExists == .refuse)
    for more: [Setting: String] in [
      [.alsoTo: "https://b"], [.formSuccess: "x"], [.s3Region: "x"], [.tusUnclear: "hold"],
    ] {
      let flags = [Setting.to: "webdav+https://h/", .spool: "/s"].merging(more) { $1 }
      #expect(throws: ConfigurationError.self) { try configuration(flags: flags) }
    }
    #expect(throws: ConfigurationError.self) { try configuration(flags: [.to: "webdav+http://h/", .spool: "/s"]) }
  }

  private static let formValues: [Setting: String] = [
    .to: "form+https://forms.example.org/api/uploads.php?ui=json", .spool: "/s", .basicAuthFile: "/p",
    .proxy: "socks5h://127.0.0.1:1080", .noProxy: "a.example.org,10.0.0.0/8", .proxyAuthFile: "/q", .clientCert: "/c",
    .clientKey: "/k",
    .formSuccess: "Thank you",
    .formField: "upload", .formExtra: "folder={folder}; *.mov kind=video", .formUnclear: "hold",
    .formDigestField: "asset.sha256", .formOmit: "Links; owner", .maxUploadSize: "512MiB",
  ]

  @Test(.promises("DE76")) func everySettingOfForms_canBeGivenInEachPlace() throws {
    let read = try configurationFromEachPlace(Self.formValues)
    let form = try #require(read.form)
    #expect(read.destination.text == "https://forms.example.org/api/uploads.php")
    #expect(form.address.text == "form+https://forms.example.org/api/uploads.php")
    #expect(form.fileField == "upload" && form.fields.map(\.name) == ["folder", "kind"])
    #expect(form.successText == "Thank you" && form.unclear == .hold && form.fileBytesMax == 512 << 20)
    #expect(form.digestField == "asset.sha256" && form.omittedMembers == ["links", "owner"])
    #expect(read.basicAuthFile == "/p")
    #expect(read.proxy == "socks5h://127.0.0.1:1080" && read.proxyExceptions == "a.example.org,10.0.0.0/8")
    #expect(read.clientCertificateFile == "/c" && read.clientKeyFile == "/k")
    #expect(read.proxyAuthFile == "/q")
  }

  @Test(
    .promises("DE88"),
    arguments: [
      (["to": "form+https://h/p", "also-to": "https://b"], "one address"),
      (["to": "form+http://h/p"], "--allow-plain-http"),
      (["to": "form+https://h/p", "form-extra": "x"], "name=value"),
      (["to": "form+https://h/p", "form-extra": "x={what}"], "{path}"),
      (["to": "form+https://h/p", "token-file": "/t", "basic-auth-file": "/b"], "exclude each other"),
      (["to": "https://h", "basic-auth-file": "/b"], "--token-file"),
      (["to": "https://h", "max-upload-size": "1GB"], "form+https:// only"),
      (["to": "form+https://u:p@h/p"], "user name or password"),
      (["to": "form+https://h/p", "token-command": "x", "token-file": "/t"], "exclude each other"),
      (["to": "https://h", "basic-auth-file": "/p"], "--token-file or --token-command"),
      (["to": "https://h", "proxy": "http://u:p@proxy:3128"], "--proxy-auth-file"),
      (["to": "https://h", "proxy": "proxy:3128"], "socks5h://"),
      (["to": "https://h", "client-key": "/k"], "--client-cert"),
      (["to": "form+https://h/p?a=<"], "percent-encoded"),
    ])
  func whatDoesNotFitAForm_isRefused(texts: [String: String], expected: String) throws {
    var flags: [Setting: String] = [.spool: "/s"]
    for (name, text) in texts { flags[try #require(Setting(rawValue: name))] = text }
    #expect(refusal(flags: flags).contains(expected), "\(refusal(flags: flags))")
  }

  @Test(.promises("DE88"), arguments: ["https://h", "tus+https://h/p", "form+https://h/p"])
  func tokenCommand_canBeGivenInEachPlace(to address: String) throws {
    let read = try configurationFromEachPlace([.to: address, .spool: "/s", .tokenCommand: "print-token --of form"])
    #expect(read.tokenCommand == "print-token --of form")
  }

  @Test(.promises("DE96")) func credentialsOfSystemd_areUsedWhereNothingElseIsGiven() throws {
    var sources = SettingSources()
    sources.add(flags: [.to: "form+https://h/p", .spool: "/s", .clientCert: "/c", .clientKey: "/own"])
    sources.add(credentialsIn: "/run/credentials/u") {
      ["/run/credentials/u/basic-auth-file", "/run/credentials/u/client-key", "/run/credentials/u/spool"].contains($0)
    }
    let configuration = try MountConfiguration(sources)
    #expect(configuration.basicAuthFile == "/run/credentials/u/basic-auth-file")
    #expect(configuration.clientKeyFile == "/own" && configuration.spool == "/s" && configuration.tokenFile == nil)
  }

  private static let s3Values: [Setting: String] = [
    .to: "s3+https://s3.example.org:9000/captures/day%201/", .spool: "/s", .s3Region: "nl-1", .s3Profile: "archive",
    .s3Style: "virtual-host", .s3Checksum: "sha256", .s3IfExists: "refuse",
  ]

  @Test func everySettingOfS3_canBeGivenInEachPlace() throws {
    let read = try configurationFromEachPlace(Self.s3Values)
    let s3 = try #require(read.s3)
    #expect(read.destination.text == "https://s3.example.org:9000")
    #expect(s3.address.bucket == "captures" && s3.address.prefix == "day 1/")
    #expect(s3.region == "nl-1" && s3.profile == "archive" && s3.style == .virtualHost)
    #expect(s3.checksum == .sha256 && s3.ifExists == .refuse)
  }

  private static let tusValues: [Setting: String] = [
    .to: "tus+https://up.example.org:9000/files/", .spool: "/s", .tokenFile: "/t", .tusProfile: "supabase",
    .tusMetadata: "bucketName=a b; objectName={path}", .tusUnclear: "hold",
    .tusProtocol: "auto",
  ]

  @Test(.promises("DE53")) func everySettingOfTus_canBeGivenInEachPlace() throws {
    let read = try configurationFromEachPlace(Self.tusValues)
    let tus = try #require(read.tus)
    #expect(tus.address.text == "tus+https://up.example.org:9000/files/")
    #expect(read.destination.text == "https://up.example.org:9000/files")
    #expect(tus.profile == .supabase && read.chunkBytes == 6 << 20 && read.isChunkSizeFixed)
    #expect(tus.metadata.map(\.key) == ["bucketName", "objectName"])
    #expect(tus.metadata.map(\.value) == ["a b", "{path}"])
    #expect(tus.unclear == .hold && tus.uploadProtocol == .automatic)
  }

  @Test(.promises("DE51", "DE53", "DE65")) func chunksOfTus_areWithinWhatTheServiceTakes() throws {
    let server: [Setting: String] = [.to: "tus+https://h.example.org/files/", .spool: "/s"]
    #expect(try configuration(flags: server).chunkBytes == 4 << 20)
    #expect(try !configuration(flags: server).isChunkSizeFixed)
    let fitting = server.merging([.tusProfile: "cloudflare", .chunkSize: "8MiB"]) { $1 }
    #expect(try configuration(flags: fitting).chunkBytes == 8 << 20)
    for (profile, size) in [
      ("standard", "1MiB"), ("supabase", "8MiB"), ("cloudflare", "4MiB"), ("cloudflare", "5124KiB"),
    ] {
      let message = refusal(flags: server.merging([.tusProfile: profile, .chunkSize: size]) { $1 })
      #expect(message.contains("--tus-profile \(profile) wants"), "\(message)")
    }
    #expect(refusal(flags: server.merging([.tusMetadata: "a,b=c"]) { $1 }).contains("key=value"))
    #expect(refusal(flags: server.merging([.alsoTo: "https://b.example.org"]) { $1 }).contains("not for tus"))
    let draft = server.merging([.tusProtocol: "ietf"]) { $1 }
    #expect(try configuration(flags: draft).tus?.uploadProtocol == .ietf)
    #expect(refusal(flags: draft.merging([.tusMetadata: "a=c"]) { $1 }).contains("--tus-protocol ietf"))
    #expect(refusal(flags: draft.merging([.tusProtocol: "rufh"]) { $1 }).contains("--tus-protocol"))
    #expect(refusal(flags: least.merging([.tusProtocol: "ietf"]) { $1 }).contains("tus+https:// only"))
    #expect(refusal(flags: least.merging([.tusProfile: "supabase"]) { $1 }).contains("tus+https:// only"))
    #expect(refusal(flags: least.merging([.alsoTo: server[.to] ?? ""]) { $1 }).contains("one address"))
  }

  /// Regression: it named a host that cannot be.
  @Test func virtualHost_isNotForAddresses() {
    for host in ["127.0.0.1:9000", "[::1]:9000"] {
      let flags: [Setting: String] = [.to: "s3+http://\(host)/captures", .spool: "/s", .s3Style: "virtual-host"]
      #expect(refusal(flags: flags).contains("use path"))
    }
  }

  /// A file that is being written may become as large as any, and a multipart upload has 10,000 parts.
  @Test(.promises("DE30", "DE31")) func partsOfS3_holdTheLargestFile() throws {
    let bucket: [Setting: String] = [.to: "s3+https://h.example.org/captures", .spool: "/s"]
    #expect(try configuration(flags: bucket).chunkBytes == 10_027_008)
    #expect(try configuration(flags: bucket.merging([.maxFileSize: "1GB"]) { $1 }).chunkBytes == 5 << 20)
    #expect(try configuration(flags: bucket.merging([.chunkSize: "16MiB"]) { $1 }).chunkBytes == 16 << 20)
    for (values, advice) in [
      ([Setting.chunkSize: "8MiB"], "--max-file-size"), ([.maxFileSize: "1TB"], "--max-file-size"),
      ([.chunkSize: "4MiB", .maxFileSize: "1GB"], "5 MiB"),
    ] {
      let message = refusal(flags: bucket.merging(values) { $1 })
      #expect(message.contains(advice), "\(message)")
    }
  }

  @Test(.promises("DE88")) func settingsOfAnotherDestination_areRefused() {
    for setting in [Setting.s3Region, .s3Profile, .s3Style, .s3Checksum, .s3IfExists] {
      #expect(refusal(flags: least.merging([setting: "path"]) { $1 }).contains("s3+https:// only"), "\(setting)")
    }
    let bucket: [Setting: String] = [.to: "s3+https://h.example.org/captures", .spool: "/s"]
    #expect(refusal(flags: bucket.merging([.tokenFile: "/t"]) { $1 }).contains("not for S3"))
    #expect(refusal(flags: bucket.merging([.alsoTo: "https://b.example.org"]) { $1 }).contains("not for S3"))
    #expect(refusal(flags: least.merging([.alsoTo: bucket[.to] ?? ""]) { $1 }).contains("one address"))
  }

  @Test func whatDestinationsLookAt_isASetting() {
    for key in DestinationSettings.keys { #expect(Setting(rawValue: key.name) != nil, "\(key.name)") }
  }

  @Test func settingsOfEachKind_makeItsDestination() throws {
    func destination(_ flags: [Setting: String]) throws -> any Destination {
      let read = try configuration(flags: [.spool: "/s"].merging(flags) { $1 })
      return try read.settings.makeDestination(
        in: DestinationContext(
          parallelRequests: read.parallel, chunkBytes: read.chunkBytes, fileBytesMax: read.fileBytesMax,
          secondsSince1970: { 0 }))
    }
    let receiver = try destination([.to: "https://a.example.org", .alsoTo: "https://b.example.org"])
    #expect(receiver is ChunkProtocolDestination && receiver.endpointCount == 2)
    #expect(try destination([.to: "form+https://h/p"]) is FormDestination)
    #expect(try destination([.to: "webdav+https://h/p"]) is WebDAVDestination)
    #expect(try destination([.to: "tus+https://h/p"]) is TusDestination)
    #expect(try destination([.to: "tus+https://h/p", .tusProtocol: "ietf"]) is ResumableDestination)
    #expect(try destination([.to: "tus+https://h/p", .tusProtocol: "auto"]) is DiscoveringDestination)
    // Its credentials are found before.
    #expect(throws: DestinationError.self) { try destination([.to: "s3+https://h.example.org/captures"]) }
  }

  /// What is wrong is said in this order, whichever kind is at the address.
  @Test func settingsOfOtherKinds_areLookedAtBehindTheKindsOwn() {
    let bucket: [Setting: String] = [.to: "s3+https://h.example.org/captures", .spool: "/s", .tusUnclear: "hold"]
    #expect(refusal(flags: bucket) == "--tus-unclear is for a destination of tus+https:// only")
    #expect(
      refusal(flags: bucket.merging([.s3Style: "x"]) { $1 })
        == "--s3-style: “x” is not possible; use one of path, virtual-host")
    let form: [Setting: String] = [.to: "form+http://h/p", .spool: "/s", .tusUnclear: "hold"]
    #expect(refusal(flags: form).hasSuffix("allow plain HTTP explicitly. (--allow-plain-http)"))
    #expect(
      refusal(flags: form.merging([.alsoTo: "", .s3Region: ""]) { $1 })
        == "--s3-region is for a destination of s3+https:// only")
    #expect(
      refusal(flags: form.merging([.alsoTo: ""]) { $1 }) == "--also-to is not for forms: a form has one address")
  }

  @Test(.promises("DE138d", "DE138f")) func whatHappensWithNamesOfOthers_isForServersThatCanTell() throws {
    #expect(try configuration(flags: least).ifExists == nil)
    for policy in FileSettings.IfExists.allCases {
      #expect(try configuration(flags: least.merging([.ifExists: policy.rawValue]) { $1 }).ifExists == policy)
    }
    let bucket: [Setting: String] = [.to: "s3+https://h.example.org/captures", .spool: "/s"]
    #expect(try configuration(flags: bucket).s3?.ifExists == .number)
    for policy in FileSettings.IfExists.allCases {
      for setting in [Setting.ifExists, .s3IfExists] {
        let flags = bucket.merging([setting: policy.rawValue]) { $1 }
        #expect(try configuration(flags: flags).s3?.ifExists == policy)
      }
    }
    #expect(
      refusal(flags: bucket.merging([.ifExists: "refuse", .s3IfExists: "replace"]) { $1 }).contains("one of them"))
    for address in ["form+https://h/p", "tus+https://h/p"] {
      let flags = [Setting.to: address, .spool: "/s"]
      #expect(try configuration(flags: flags.merging([.ifExists: "replace"]) { $1 }).ifExists == .replace)
      #expect(refusal(flags: flags.merging([.ifExists: "number"]) { $1 }).contains("cannot tell whose"))
    }
  }

  /// Regression: by rule it was ignored there without a word, and what had the name was replaced.
  @Test(.promises("DE138f"), arguments: ["number", "refuse"])
  func whatARuleSaysOfNamesOfOthers_isForServersThatCanTell(policy: String) throws {
    let rule = "**/*.mov if-exists=\(policy)"
    for address in ["form+https://h/p", "tus+https://h/p"] {
      let flags = [Setting.to: address, .spool: "/s"]
      let message = refusal(flags: flags.merging([.rule: rule]) { $1 })
      #expect(
        message.contains("if-exists=\(policy), at main: forms and servers that speak tus cannot tell"), "\(message)")
      #expect(throws: Never.self) {
        try configuration(flags: flags.merging([.rule: "**/*.mov if-exists=replace"]) { $1 })
      }
      let second = least.merging([.destination: "web to=\(address)"]) { $1 }
      #expect(throws: Never.self) { try configuration(flags: second.merging([.rule: rule]) { $1 }) }
      // It is for the one that can tell.
      #expect(throws: Never.self) {
        try configuration(flags: second.merging([.rule: rule + " to=main,web"]) { $1 })
      }
      #expect(refusal(flags: second.merging([.rule: rule + " to=web"]) { $1 }).contains("at web: forms"))
    }
    let bucket: [Setting: String] = [.to: "s3+https://h.example.org/captures", .spool: "/s"]
    for flags in [least, bucket] {
      #expect(throws: Never.self) { try configuration(flags: flags.merging([.rule: rule]) { $1 }) }
    }
  }

  @Test func relativePathInFile_startsAtTheFilesFolder() throws {
    let configuration = try configuration(flags: [.to: "https://h"], file: "spool: spool\ntoken-file: secrets/token\n")
    #expect(configuration.spool == "/etc/uploadfs/spool")
    #expect(configuration.tokenFile == "/etc/uploadfs/secrets/token")
  }

  @Test func missingSetting_isNamedInAllItsSpellings() {
    let message = refusal(flags: [.to: "https://h"])
    for spelling in ["--spool", "UPLOADFS_SPOOL", "“spool”"] { #expect(message.contains(spelling), "\(message)") }
    #expect(refusal(flags: [.spool: "/s"]).contains("--to"))
  }

  @Test func unknownKeyInFile_isNamedWithLineAndNearestKey() {
    let message = refusal(file: "parallel: 3\nchunksize: 4MiB\n")
    #expect(message == "unknown setting “chunksize” in /etc/uploadfs/mount.yaml, line 2; did you mean chunk-size?")
    #expect(refusal(file: "colour: green\n").hasSuffix("line 1"))
  }

  /// Regression: it was said to be no valid YAML, without a line.
  @Test func keyThatIsSetTwice_isNamedWithItsLine() {
    let message = refusal(file: "parallel: 3\nspool: /a\nto: https://h\nspool: /b\n")
    #expect(
      message
        == "/etc/uploadfs/mount.yaml, line 2: “spool” is set more than once, here for the first time; leave one of them"
    )
  }

  @Test func unknownVariable_isNamedWithNearestOne() {
    let message = refusal(environment: ["UPLOADFS_TOKENFILE": "x"])
    #expect(message.contains("UPLOADFS_TOKENFILE"))
    #expect(message.contains("did you mean UPLOADFS_TOKEN_FILE?"))
    // Regression: UPLOADFS_TO was advised.
    #expect(refusal(environment: ["UPLOADFS_TOKEN": "x"]).contains("did you mean UPLOADFS_TOKEN_FILE?"))
    #expect(refusal(environment: ["UPLOADFS_CONFIG": "/x", "OTHER": "1"]).isEmpty)
  }

  @Test(
    .promises("DE11"),
    arguments: [
      (Setting.chunkSize, "4 MeB"), (.chunkSize, "128KiB"), (.chunkSize, "33MiB"), (.chunkSize, "1000001"),
      (.parallel, "0"), (.parallel, "13"), (.parallel, "many"), (.reserve, "-1"), (.reserve, "99999999999GB"),
      (.maxFileSize, "0"), (.http, "3"), (.congestion, "reno"), (.threads, "0"), (.allowOther, "perhaps"),
      (.drainTimeout, "soon"),
      (.keep, "-1"),
      (.limitRate, "20"), (.limitRate, "20Mbit"), (.limitRate, "20Mb/s"), (.limitRate, "1kbit/s"),
      (.limitRate, "20Mbit/s; 10Mbit/s"), (.limitRate, "08:00 20Mbit/s"), (.limitRate, "8:00-25:00 20Mbit/s"),
      (.limitRate, "08:00-08:00 20Mbit/s"), (.limitRate, "08:00-09:00"), (.limitRate, "-1Mbit/s"),
      (.logLevel, "loud"), (.passthrough, "yes"), (.uploadPriority, "high"), (.compress, "gzip"), (.reading, "fast"),
      (.upload, "later"),
      (.interrupted, "keep"),
      (.ignore, "a["), (.temporary, "a["), (.nameTemplate, "{nmae}"), (.nameTemplate, "all"),
      (.rule, "*.mov"), (.rule, "*.mov upload=perhaps"),
      (.rule, "*.mov to=archive"), (.rule, "*.mov to="), (.destination, "archive"), (.destination, "A to=https://c.de"),
      (.destination, "main to=https://c.de"), (.destination, "a to=https://c.de; a to=https://d.de"),
      (.destination, "a to=https://c.de spool=/x"), (.destination, "a to=https://c.de x"),
      (.destination, (0..<4).map { "a\($0) to=https://h\($0).example.org" }.joined(separator: ";")),
      (.rule, "* fsync=remote; raw/ upload=never"),
      (.spool, ""), (.tokenFile, ""),
      (.alsoTo, ""), (.alsoTo, "upload.example.org"), (.alsoTo, "https://a.example.org,http://b.example.org"),
      (.alsoTo, "https://upload.example.org"), (.alsoTo, "https://a.example.org,https://A.example.org/"),
      (.alsoTo, (0..<8).map { "https://h\($0).example.org" }.joined(separator: ",")),
    ])
  func badValue_isRefusedByName(setting: Setting, text: String) {
    let flags = least.merging([setting: text]) { $1 }
    #expect(refusal(flags: flags).hasPrefix(setting.flag), "\(setting) \(text)")
    var withoutSetting = least
    withoutSetting[setting] = nil
    let fromEnvironment = refusal(flags: withoutSetting, environment: [setting.environmentName: text])
    #expect(fromEnvironment.hasPrefix(setting.environmentName), "\(setting) \(text)")
  }

  /// Regression: a value with a line break made several lines of the refusal, and one with a control character moved the cursor.
  @Test(
    arguments: [
      (.parallel, "4\n5"), (.chunkSize, "1\u{1b}[2JMB"), (.keep, "1\rh"), (.upload, "on\nclose"), (.http, "2\u{202e}"),
      (.to, "https://h\n/x"), (.alsoTo, "https://h/\u{7}"), (.nameTemplate, "{x\n}"), (.allowOther, "y\u{2028}"),
      (.rule, "*.mov upload=\u{1b}[1m"), (.ignore, "a/\u{1b}//["), (.expert, "retry-delay-max=\u{8}"),
      (.destination, "a\u{1b}b to=https://h"), (.maxFileSize, "\u{85}"), (.logLevel, "in\tfo"), (.passthrough, "\n"),
    ] as [(Setting, String)])
  func aValueWithALineBreak_isRefusedInOneLine(setting: Setting, text: String) {
    let flags = least.merging([setting: text]) { $1 }
    var withoutSetting = least
    withoutSetting[setting] = nil
    for message in [
      refusal(flags: flags), refusal(flags: withoutSetting, environment: [setting.environmentName: text]),
    ] {
      #expect(message.contains(setting.rawValue) || message.contains(setting.environmentName), "\(message)")
      #expect(!message.unicodeScalars.contains { $0.properties.generalCategory == .control }, "\(message)")
      #expect(!message.unicodeScalars.contains { ["\u{2028}", "\u{202e}"].contains($0) }, "\(message)")
    }
  }

  /// Regression: as above, in the file.
  @Test(arguments: [
    "parallel: |\n  4\n  5\n", "\"par\\nallel\": 4\n", "keep: \"\\e[2J\"\n", "expert: {\"a\\tb\": 1}\n",
  ])
  func aFilesValueWithALineBreak_isRefusedInOneLine(text: String) {
    let message = refusal(file: text)
    #expect(message.contains("/etc/uploadfs/mount.yaml"), "\(message)")
    #expect(!message.unicodeScalars.contains { $0.properties.generalCategory == .control }, "\(message)")
  }

  @Test func uploadMode_isWhileWritingUnlessOneSaysOtherwise() throws {
    #expect(try configuration(flags: least).rules == FileRules())
    #expect(refusal(flags: least.merging([.upload: "never"]) { $1 }).contains("--ignore"))
  }

  @Test func rule_makesAnExceptionOfWhatIsIgnored() throws {
    let flags = least.merging([.ignore: "*.log", .rule: "keep.log upload=on-close"]) { $1 }
    let rules = try configuration(flags: flags).rules
    #expect(rules.settings(for: RelativePath("a.log")).upload == .never)
    #expect(rules.settings(for: RelativePath("keep.log")).upload == .onClose)
  }

  @Test func listInFile_isAListOfRules() throws {
    let file = "ignore:\n  - '*.log'\n  - odd\\;name\nrule: ['*.mov upload=on-close', 'a\\ b close=wait']\n"
    let rules = try configuration(flags: least, file: file).rules
    #expect(rules.rules.map(\.pattern.description) == ["*.log", "odd\\;name", "*.mov", "a\\ b"])
    #expect(rules.settings(for: RelativePath("odd;name")).upload == .never)
    #expect(rules.settings(for: RelativePath("a b")).close == .wait)
    #expect(refusal(file: "rule: {a: b}\n").contains("“rule” takes a plain value or a list"))
    #expect(refusal(file: "parallel: [1]\n").contains("“parallel” takes one plain value"))
  }

  /// Regression: an empty list of what is for another kind of destination was refused.
  @Test(arguments: Setting.allCases)
  func emptyListInFile_isNotGiven(setting: Setting) throws {
    guard setting.isList else {
      return #expect(refusal(file: "\(setting.rawValue): []\n").contains("takes one plain value"))
    }
    let file = "\(setting.rawValue): []\n"
    #expect(try configuration(flags: least, file: file) == configuration(flags: least))
    #expect(refusal(file: "\(setting.rawValue): {}\n").isEmpty == (setting == .expert))
    // The environment's counts, whatever the file has.
    let environment = [Setting.ignore.environmentName: "*.log"]
    let rules = try configuration(flags: least, environment: environment, file: file).rules
    #expect(rules.settings(for: RelativePath("a.log")).upload == .never)
  }

  /// Regression: a path that is no UTF-8 became another one, with U+FFFD in it, without a word.
  @Test func whatIsNoUTF8_isRefusedWithItsPlace() throws {
    let refusal = { (check: () throws -> Void) -> String in
      do {
        try check()
        return ""
      } catch {
        return "\(error)"
      }
    }
    let arguments = { (arguments: [[UInt8]]) in
      refusal { try SettingBytes.check(arguments: [Array("uploadfs-mount".utf8)] + arguments) }
    }
    let bad = Array("/spool/".utf8) + [0xe9]
    let (flag, mount) = (Array("--spool".utf8), Array("mount".utf8))
    #expect(arguments([flag, bad]).hasPrefix("the value of --spool is no UTF-8"))
    #expect(arguments([flag + [UInt8(ascii: "=")] + bad]).hasPrefix("the value of --spool is no UTF-8"))
    #expect(arguments([mount, bad]).hasPrefix("argument 2 is no UTF-8"))
    #expect(arguments([mount, Array("/spool/é".utf8)]).isEmpty)
    let ofMount = { (mountPoint: [UInt8], arguments: [[UInt8]]) in
      refusal {
        try SettingBytes.check(
          arguments: [Array("uploadfs-mount".utf8)] + arguments,
          ofMountAt: String(decoding: mountPoint, as: UTF8.self), flags: ["--match"])
      }
    }
    let (there, match) = (Array("/mnt/é".utf8), Array("--match".utf8))
    #expect(ofMount(bad, [mount, bad]).hasPrefix("the mount point is no UTF-8"))
    #expect(ofMount(bad, [mount, bad, bad]).hasPrefix("the mount point is no UTF-8"))
    #expect(ofMount(there, [mount, match, bad, there]).hasPrefix("the value of --match is no UTF-8"))
    #expect(ofMount(there, [mount, there, match + [UInt8(ascii: "=")] + bad]).hasPrefix("the value of --match is no"))
    // A capture's name is bytes.
    #expect(ofMount(there, [mount, there, bad, Array("--all".utf8), bad]).isEmpty)
    let replaced = Array(String(decoding: bad, as: UTF8.self).utf8)
    #expect(ofMount(replaced, [mount, replaced, bad]).isEmpty)
    let variable = { (wanted: String) in
      refusal { try SettingBytes.check { name in name == wanted ? bad : name == "UPLOADFS_TO" ? [0x61] : nil } }
    }
    #expect(variable("UPLOADFS_SPOOL").hasPrefix("the environment's UPLOADFS_SPOOL is no UTF-8"))
    #expect(variable("UPLOADFS_CONFIG").contains("UPLOADFS_CONFIG") && variable("LESS").isEmpty)
    let file = Array("to: https://h/\nspool: ".utf8) + bad
    #expect(refusal { _ = try SettingBytes.text(ofFile: file, path: "/e/m.yaml") }.hasPrefix("/e/m.yaml, line 2 is no"))
    let marked = try SettingBytes.text(ofFile: [0xef, 0xbb, 0xbf] + Array("to: é".utf8), path: "/e/m.yaml")
    #expect(marked == "to: é" && marked.unicodeScalars.first == "t")
  }

  /// Regression: the environment's paths of AWS's files were not looked at, and one that is no UTF-8 led to another file.
  @Test(arguments: [
    ("HOME", false), ("AWS_SHARED_CREDENTIALS_FILE", true), ("AWS_CONFIG_FILE", true), ("AWS_PROFILE", false),
  ])
  func whereTheKeysOfS3Lie_isUTF8(name: String, isReadBesideAll: Bool) {
    func refusal(profile: String?, _ others: [String: String]) -> String {
      do {
        let bytes = { (variable: String) -> [UInt8]? in
          variable == name ? [0x2f, 0xe9] : others[variable].map { Array($0.utf8) }
        }
        let variables = S3CredentialSource.variables(profile: profile) { bytes($0) != nil }
        try SettingBytes.check(variables: variables, bytes)
        return ""
      } catch {
        return error.message
      }
    }
    let expected = "the environment's \(name) is no UTF-8"
    #expect(refusal(profile: nil, [:]).hasPrefix(expected))
    #expect(refusal(profile: nil, ["HOME": "/home/é", "AWS_CONFIG_FILE": "/c"]).hasPrefix(expected))
    // Nothing is read from it where another variable, or a setting, says the same.
    let all = ["HOME": "/h", "AWS_SHARED_CREDENTIALS_FILE": "/k", "AWS_CONFIG_FILE": "/c", "AWS_PROFILE": "p"]
    #expect(refusal(profile: "p", all).hasPrefix(expected) == isReadBesideAll)
  }

  /// Regression: the calls of the system end a path at a NUL, and another folder was taken without a word.
  @Test(arguments: [
    (#"spool: "/var/spool\0/captures""#, "spool"), (#"token-file: "\x00""#, "token-file"),
    (#"ignore: ["*.log", "a\0b"]"#, "ignore"), (#"expert: {prefetch: "2\0"}"#, "expert"),
    (#"expert: {"prefetch\0": "2"}"#, "expert"), (#"destination: "a to=https://h token-file=/t\0/u""#, "destination"),
  ])
  func aNULInAFile_isRefusedWithItsPlace(line: String, setting: String) {
    let message = refusal(file: "# first\n\(line)\n")
    #expect(message.hasPrefix("/etc/uploadfs/mount.yaml, line 2: “\(setting)” holds a NUL"), "\(message)")
  }

  @Test func brokenFile_isOneLineThatNamesIt() {
    for text in ["to: [unclosed", "- just\n- a list\n", "to:\n  nested: 1\n", "parallel: 1\nparallel: 2\n"] {
      let message = refusal(file: text)
      #expect(message.contains("/etc/uploadfs/mount.yaml"), "\(text) gave: \(message)")
      #expect(!message.contains("\n"), "\(message)")
    }
    #expect(refusal(file: "# nothing set\n").isEmpty)
    #expect(refusal(file: "").isEmpty)
  }

  @Test(.promises("DE14", "DE39")) func plainHTTP_isForLoopbackUnlessAllowed() throws {
    for address in ["http://localhost:8080", "http://127.0.0.1", "http://[::1]:80", "http://127.8.9.10/x"] {
      #expect(refusal(flags: [.to: address, .spool: "/s"]).isEmpty, "\(address)")
    }
    for address in ["http://example.org", "http://10.0.0.1", "http://127.example.org", "http://localhost.example.org"] {
      #expect(refusal(flags: [.to: address, .spool: "/s"]).contains("--allow-plain-http"), "\(address)")
    }
    #expect(
      try !configuration(flags: [.to: "http://h", .spool: "/s", .allowPlainHTTP: "true"]).destination.isEncrypted)
  }

  @Test(arguments: [
    ("upload.example.org", "no URL"), ("ftp://h", "not ftp://"),
    ("tus+http://h/files/", "--allow-plain-http"),
    ("s3+https://h/b", "valid bucket"), ("s3+https://h", "names no bucket"),
    ("s3+http://h/bucket", "--allow-plain-http"),
    ("https://", "valid host"), ("https://h:0", "port"), ("https://h:70000", "port"), ("https://a:b@h", "--token-file"),
    ("https://h/?x=1", "query"), ("https://h/a b", "percent-encoding"), ("https://[::1", "valid host"),
  ])
  func badAddress_saysWhatIsWrong(text: String, expected: String) {
    let message = refusal(flags: [.to: text, .spool: "/s"])
    #expect(message.hasPrefix("--to: "), "\(message)")
    #expect(message.contains(expected), "\(message)")
    #expect(!message.contains("a:b"), "credentials must not be repeated")
  }

  @Test func sizes_areExact() throws {
    let expected: [(String, UInt64)] = [
      ("0", 0), ("17", 17), ("1KB", 1_000), ("1kib", 1_024), ("1.5 GiB", 3 << 29), ("0.25MB", 250_000),
      ("1_000_000", 1_000_000), ("2TiB", 2 << 40), ("10B", 10),
    ]
    for (text, bytes) in expected {
      #expect(try configuration(flags: least.merging([.reserve: text]) { $1 }).reserveBytes == bytes, "\(text)")
    }
    for text in ["", "MB", "1.2.3MB", "1e6", "+5", ".5MB", "5.MB", "٣MB", "1.1234567MB"] {
      #expect(!refusal(flags: least.merging([.reserve: text]) { $1 }).isEmpty, "\(text)")
    }
  }

  @Test func durations_haveUnits() throws {
    let expected: [(String, Duration?)] = [
      ("0", .zero), ("30", .seconds(30)), ("500ms", .milliseconds(500)), ("1.5m", .seconds(90)), ("2h", .seconds(7200)),
      ("none", nil),
    ]
    for (text, duration) in expected {
      #expect(try configuration(flags: least.merging([.drainTimeout: text]) { $1 }).drainTimeout == duration, "\(text)")
    }
  }
}

/// Settings for experts.
@Suite struct ExpertSettingTests {
  private func timing(_ text: String) throws -> UploadTiming {
    var sources = SettingSources()
    sources.add(flags: [.to: "https://a.example.org", .spool: "/s", .expert: text])
    return try MountConfiguration(sources).timing
  }

  @Test func withoutAny_theValuesAreTheSpecifications() throws {
    #expect(try timing("") == UploadTiming() && UploadTiming().changedSettings == [])
  }

  @Test func eachOne_hasItsPlace_andIsShown() throws {
    let texts = [
      "connect-timeout=1m", "request-timeout=2m", "stall-timeout=30s", "answer-timeout=1h", "retry-delay=1s",
      "retry-delay-max=1m", "file-pause-max=2h", "chunk-tries=3", "file-tries=4", "file-watchdog=90s",
      "global-watchdog=10m", "prefetch=6", "session-age=30d", "proxy-tls=1.2", "http2-library=any",
    ]
    #expect(texts.map { String($0.prefix { $0 != "=" }) } == ExpertSetting.allCases.map(\.rawValue))
    for text in texts { #expect(try timing(text).changedSettings == [text]) }
    #expect(try timing(texts.joined(separator: ";")).changedSettings == texts)
  }

  @Test func inAFile_theyAreLinesOfTheirOwn() throws {
    var sources = SettingSources()
    let file = "to: https://a.example.org\nspool: /s\nexpert:\n  prefetch: 2\n  stall-timeout: 1500ms\n"
    #expect(throws: ConfigurationError.self) {
      try sources.add(file: file, path: "mount.yaml")
      _ = try MountConfiguration(sources)
    }
    sources = SettingSources()
    try sources.add(file: file.replacing("1500ms", with: "2500ms"), path: "mount.yaml")
    #expect(try MountConfiguration(sources).timing.changedSettings == ["stall-timeout=2500ms", "prefetch=2"])
  }

  @Test(arguments: [
    ("prefetch", "no key=value"), ("prefetch=0", "from 1 to 12"), ("prefetch=x", "from 1 to 12"),
    ("stall-timeout=1s", "from 2s to 10m"), ("session-age=2y", "from 1h to 365d"), ("stal-timeout=9s", "stall-timeout"),
    ("proxy-tls=1.1", "1.2 or 1.3"), ("http2-library=7", "8.10 or any"),
    ("retry-delay=30s", "longer than retry-delay-max"),
    ("file-watchdog=6m", "longer than global-watchdog"),
  ])
  func whatIsNotPossible_isSaid(_ text: String, _ word: String) throws {
    let error = #expect(throws: ConfigurationError.self) { _ = try timing(text) }
    #expect(
      error?.message.contains("--expert") == true && error?.message.contains(word) == true,
      "\(String(describing: error))")
  }
}

/// What is said at the start where the machine has less. That so much is enough: Tests/EndToEnd/test_small_machine.py.
@Suite struct MachineNeedsTests {
  private func needs(_ flags: [Setting: String] = [:]) throws -> MachineRequirements {
    MachineRequirements(try configuration(flags: least.merging(flags) { $1 }))
  }

  @Test(
    "Regression: 48 MiB were said to be enough for chunks of 32 MiB as well",
    arguments: [("256KiB", 48), ("12MiB", 48), ("16MiB", 64), ("32MiB", 128)] as [(String, UInt64)])
  func memory_isThatOfTheChunks(chunkSize: String, mebibytes: UInt64) throws {
    #expect(try needs([.chunkSize: chunkSize]).memoryBytes == mebibytes << 20)
    #expect(try needs([:]).memoryBytes == 48 << 20)
  }

  @Test("Regression: 28 threads were said to be enough, however many `--threads` were asked for")
  func threads_areThoseOfTheSettings() throws {
    // Regression: without the thread that searches, which was new, and what comes and goes beside it.
    #expect(try needs().threads == 33)
    #expect(try needs([.threads: "1"]).threads == 28)
    #expect(try needs([.threads: "64"]).threads == 91)
  }

  @Test func furtherDestinations_needMoreOfEach() throws {
    let one = try needs()
    let further = "archive to=https://c.example.org chunk-size=32MiB; cold to=https://d.example.org"
    let three = try needs([.destination: further])
    #expect(three.threads == one.threads + 18)
    #expect(three.memoryBytes == (128 + 2 * 32) << 20)
    #expect(three.descriptors == 128 && three.descriptorsBesideCaptures == 224 && three.descriptorsForDelivery == 160)
  }

  @Test func tooLittle_isSaidWithWhatIsNeeded() throws {
    let needs = try needs()
    #expect(needs.shortageMessage(ofDescriptors: 160) == nil && needs.shortageMessage(ofDescriptors: .max) == nil)
    #expect(
      needs.shortageMessage(ofDescriptors: 100)
        == "this process may have 100 files open; it needs 160 to deliver beside many open captures (ulimit -Hn, LimitNOFILE=)"
    )
    #expect(
      needs.shortageMessage(ofDescriptors: 63)
        == "this process may have 63 files open; a mount with these settings needs 64, and 160 to deliver beside many open captures (ulimit -Hn, LimitNOFILE=)"
    )
    #expect(needs.shortageMessage(ofMemory: .max, takenBytes: 12 << 20) == nil)
    #expect(needs.shortageMessage(ofMemory: 36 << 20, takenBytes: 12 << 20) == nil)
    #expect(
      needs.shortageMessage(ofMemory: 20 << 20, takenBytes: 12 << 20)
        == "20 MiB of memory are available; a mount with these settings needs 48 MiB (MemoryMax=, or the machine's)")
  }
}

/// docs/configuration.md is what users configure by: it names everything there is, and nothing else.
@Suite struct ConfigurationDocumentTests {
  @Test func table_namesEverySettingInAllItsSpellings() throws {
    let rows = try document().split(separator: "\n").filter { $0.hasPrefix("| `--") }
    for setting in Setting.allCases {
      let row = rows.first { $0.contains("`\(setting.environmentName)`") }
      #expect(row?.contains("`\(setting.rawValue)`") == true, "\(setting.rawValue) has no row")
      #expect(row?.contains(setting.flag) == true || row?.contains("--[no-]\(setting.rawValue)") == true)
    }
    // The configuration file itself is the one row that is no setting.
    #expect(rows.count == Setting.allCases.count + 1)
  }

  @Test func table_namesEverySettingForExperts_withItsDefault() throws {
    let rows = try document().split(separator: "\n").map(String.init)
    for setting in ExpertSetting.allCases {
      let begin = "| `\(setting.rawValue)` | `\(setting.standardText)` |"
      #expect(rows.contains { $0.hasPrefix(begin) }, "\(begin)")
    }
  }

  @Test func tableOfWhatAMountNeeds_hasTheNumbersThatAreSaid() throws {
    let one = MachineRequirements(try configuration(flags: least))
    let noThreads = one.threads - 6
    let two = MachineRequirements(
      try configuration(flags: least.merging([.destination: "archive to=https://c.example.org"]) { $1 }))
    let rows = try document().split(separator: "\n").map(String.init)
    for begin in [
      "| memory (`MemoryMax=`, a control group, or what the machine has left) | \(one.memoryBytes >> 20) MiB, or four times the chunk size where that is more; \((two.memoryBytes - one.memoryBytes) >> 20) MiB for each further destination |",
      "| open files (`ulimit -Hn`, `LimitNOFILE=`) | \(one.descriptors); \(one.descriptorsBesideCaptures) to deliver beside many open captures; \(two.descriptors - one.descriptors) for each further destination |",
      "| threads (`TasksMax=`, `pids.max`) | \(noThreads), 1 for each of `--threads` (6), \(MachineRequirements.threadsPerProcessor) for each processor, and \(two.threads - one.threads) for each further destination |",
    ] {
      #expect(rows.contains { $0.hasPrefix(begin) }, "\(begin)")
    }
  }

  @Test func table_namesEveryExitCode_andNoOther() throws {
    let rows = try document().split(separator: "\n").filter { $0.wholeMatch(of: /\| \d+ \| .*/) != nil }
    let expected: [String] = ExitStatus.allCases.map { "| \($0.rawValue) | \($0.meaning) |" }
    #expect(rows.map(String.init) == expected)
  }

  @Test func help_namesEveryExitCode() throws {
    let lines = ExitStatus.table.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    let documented = try document().matches(of: /\n\| (\d+) \| (.*) \|/).map { "\($0.1) \($0.2)" }
    #expect(lines.map { $0.replacing("  ", with: " ") } == documented)
  }

  /// Found from this file's own place in the source tree.
  private func document() throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/configuration.md")
    return try String(contentsOf: root, encoding: .utf8)
  }
}
