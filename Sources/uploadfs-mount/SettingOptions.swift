import ArgumentParser
import Glibc
import MountConfiguration

/// The flags of every setting, as texts; what they mean is decided in one place, whatever the text's origin.
struct SettingOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Upload to this address: https://host[:port][/path], s3+https://host/bucket[/prefix], tus+https://host/path/ or "
        + "form+https://host/path or webdav+https://host/path.",
      valueName: "url"))
  var to: String?

  @Option(
    help: ArgumentHelp("Further addresses of the same receiver, separated by commas.", valueName: "urls"))
  var alsoTo: String?

  @Option(help: ArgumentHelp("Keep captures in this folder until they are delivered.", valueName: "dir"))
  var spool: String?

  @Option(help: ArgumentHelp("File whose first line is the bearer token.", valueName: "file"))
  var tokenFile: String?

  @Option(help: ArgumentHelp("File whose first line is user:password.", valueName: "file"))
  var basicAuthFile: String?

  @Option(
    help: ArgumentHelp(
      "Command that prints the bearer token on its first line; run at the start, and again when the server refuses the token.",
      valueName: "command"))
  var tokenCommand: String?

  @Option(
    help: ArgumentHelp("Reach the server through this proxy: http://, https://, socks5h://host:port.", valueName: "url")
  )
  var proxy: String?

  @Option(help: ArgumentHelp("Hosts to reach without the proxy, separated by commas.", valueName: "hosts"))
  var noProxy: String?

  @Option(help: ArgumentHelp("File whose first line is the proxy's user:password.", valueName: "file"))
  var proxyAuthFile: String?

  @Option(help: ArgumentHelp("PEM file of the client certificate to show to the server.", valueName: "file"))
  var clientCert: String?

  @Option(help: ArgumentHelp("PEM file of the client certificate's key.", valueName: "file"))
  var clientKey: String?

  @Option(help: ArgumentHelp("Region of the S3 bucket (default by address).", valueName: "name"))
  var s3Region: String?

  @Option(help: ArgumentHelp("Profile of the AWS credentials file to use.", valueName: "name"))
  var s3Profile: String?

  @Option(help: ArgumentHelp("How S3 requests name the bucket: path or virtual-host.", valueName: "style"))
  var s3Style: String?

  @Option(
    help: ArgumentHelp(
      "Checksum kept by the S3 server: auto, none, crc32c or sha256 (default auto).", valueName: "name"))
  var s3Checksum: String?

  @Option(help: ArgumentHelp("As --if-exists, for S3 (default number).", valueName: "policy"))
  var s3IfExists: String?

  @Option(
    help: ArgumentHelp(
      "When another capture has a file's name: number, refuse or replace (default number at a receiver, S3 and WebDAV, else replace).",
      valueName: "policy"))
  var ifExists: String?

  @Option(
    help: ArgumentHelp(
      "What the form's answer to a success holds; without it HTML is no success, and JSON must not say no.",
      valueName: "text"))
  var formSuccess: String?

  @Option(help: ArgumentHelp("Name of the form's field that holds the file (default file).", valueName: "name"))
  var formField: String?

  @Option(
    help: ArgumentHelp(
      "A further field of the form, such as 'folder={folder}'; can be given more than once.", valueName: "field"))
  var formExtra: [String] = []

  @Option(
    help: ArgumentHelp(
      "When a form's server may have a file or not: retry, or hold it until somebody has looked (default retry).",
      valueName: "policy"))
  var formUnclear: String?

  @Option(
    help: ArgumentHelp(
      "Where the JSON of a form's 409 says the SHA-256 of what it has: the same content is a delivery (default "
        + "checksum_sha256).", valueName: "name"))
  var formDigestField: String?

  @Option(
    help: ArgumentHelp(
      "A member of a form's JSON that is not kept in receipts, beside delete_token and the like; can be given more than "
        + "once.", valueName: "name"))
  var formOmit: [String] = []

  @Option(
    help: ArgumentHelp("The largest file that the form's server takes; larger ones are not sent.", valueName: "size"))
  var maxUploadSize: String?

  @Option(
    help: ArgumentHelp(
      "What is spoken with a server of tus+https://: tus (default), ietf (the draft of resumable uploads), or auto.",
      valueName: "protocol"))
  var tusProtocol: String?

  @Option(
    help: ArgumentHelp("Limits of a hosted tus server: standard, cloudflare or supabase.", valueName: "name"))
  var tusProfile: String?

  @Option(
    help: ArgumentHelp("Metadata of each tus upload, as key=value; can be given more than once.", valueName: "entry"))
  var tusMetadata: [String] = []

  @Option(
    help: ArgumentHelp(
      "When a tus server may have a file or not: retry (default), or hold it until somebody has looked.",
      valueName: "policy"))
  var tusUnclear: String?

  @Option(help: ArgumentHelp("PEM file of the certification authorities to trust.", valueName: "file"))
  var ca: String?

  @Option(
    help: ArgumentHelp(
      "A public key that the server's chain of certificates must have, as sha256//BASE64; can be given more than once.",
      valueName: "key"))
  var pin: [String] = []

  @Option(
    help: ArgumentHelp(
      "Which certificates need timestamps of two logs: public-only (default), always or off.", valueName: "policy"))
  var transparency: String?

  @Option(help: ArgumentHelp("JSON file of the certificate logs that count.", valueName: "file"))
  var transparencyLogs: String?

  @Option(
    help: ArgumentHelp(
      "A further destination, such as 'archive to=s3+https://host/bucket', for files of which a rule says so "
        + "(to=archive); can be given more than once.",
      valueName: "destination"))
  var destination: [String] = []

  @Option(help: ArgumentHelp("YAML file with settings; flags and environment win over it.", valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("When files are uploaded: while-writing or on-close.", valueName: "mode"))
  var upload: String?

  @Option(
    help: ArgumentHelp("What becomes of files that were not finished: hold, publish or discard.", valueName: "policy"))
  var interrupted: String?

  @Option(
    help: ArgumentHelp(
      "When the disk is full while a file is written: refuse, or release what the server has of it.",
      valueName: "policy"))
  var whenFull: String?

  @Option(help: ArgumentHelp("Never upload files that this describes; can be given more than once.", valueName: "glob"))
  var ignore: [String] = []

  @Option(
    help: ArgumentHelp(
      "Names that a program renames when it has finished, beside the usual ones; can be given more than once.",
      valueName: "glob"))
  var temporary: [String] = []

  @Option(
    help: ArgumentHelp(
      "What files are called where they are published, such as {date}/{stem}-{seq}.{ext} (default {path}).",
      valueName: "template"))
  var nameTemplate: String?

  @Option(
    help: ArgumentHelp(
      "Settings for some files, such as '*.mov upload=on-close'; can be given more than once.", valueName: "rule"))
  var rule: [String] = []

  @Option(
    help: ArgumentHelp(
      "Bytes of a chunk, 256KiB to 32MiB (default 256KiB to 1MiB at a receiver, 1MiB to 4MiB elsewhere).",
      valueName: "size"))
  var chunkSize: String?

  @Option(help: ArgumentHelp("Chunk requests in flight, 1 to 12 (default 12).", valueName: "n"))
  var parallel: String?

  @Option(help: ArgumentHelp("Space kept free on the spool's disk (default 205MB).", valueName: "size"))
  var reserve: String?

  @Option(
    help: ArgumentHelp("Remove delivered files from the spool after this long (default none).", valueName: "duration"))
  var keep: String?

  @Option(help: ArgumentHelp("The largest file that can be written (default 100GB).", valueName: "size"))
  var maxFileSize: String?

  @Option(
    help: ArgumentHelp(
      "How captures are compressed on their way, where the destination decodes it: off, auto, lz4 or zstd (default auto).",
      valueName: "how"))
  var compress: String?

  @Option(help: ArgumentHelp("HTTP version: auto, 1.1 or 2 (default auto).", valueName: "version"))
  var http: String?

  @Option(
    help: ArgumentHelp(
      "Congestion control of TCP: auto (BBR where packets are lost), system, bbr or cubic (default auto).",
      valueName: "name"))
  var congestion: String?

  @Option(help: ArgumentHelp("Calls at the disk of the spool at once, 1 to 64 (default 6).", valueName: "n"))
  var threads: String?

  @Option(
    help: ArgumentHelp(
      "What all uploads together may send, as 20Mbit/s, or '08:00-18:00 20Mbit/s' for a part of the day (default none).",
      valueName: "rate"))
  var limitRate: [String] = []

  @Option(
    help: ArgumentHelp(
      "How the upload stands beside writers and other programs: normal, low or lowest (default low).",
      valueName: "priority"))
  var uploadPriority: String?

  @Option(
    help: ArgumentHelp(
      "Let the kernel read and write captures past the daemon: off, read or on (default off).", valueName: "mode"))
  var passthrough: String?

  @Option(
    help: ArgumentHelp(
      "How captures are read for their upload: auto, mapped or plain (default auto).", valueName: "mode"))
  var reading: String?

  @Flag(inversion: .prefixedNo, help: "Let other users use the mount.")
  var allowOther: Bool?

  @Flag(
    name: .customLong("allow-plain-http"), inversion: .prefixedNo,
    help: "Accept http:// beyond this machine.")
  var allowPlainHTTP: Bool?

  @Option(
    help: ArgumentHelp(
      "When stopping, give up waiting for deliveries after this long (default none).", valueName: "duration"))
  var drainTimeout: String?

  @Option(
    help: ArgumentHelp(
      "Times and counts for experts: KEY=VALUE, as docs/configuration.md lists them. May be given more than once.",
      valueName: "setting"))
  var expert: [String] = []

  @Option(help: ArgumentHelp("trace, debug, info, notice, warning, error or critical.", valueName: "level"))
  var logLevel: String?

  /// A flag that was given more than once, as one text.
  private static func lines(_ values: [String]) -> String? {
    values.isEmpty ? nil : values.joined(separator: "\n")
  }

  /// The flags that were given.
  private var given: [Setting: String] {
    let texts: [Setting: String?] = [
      .formSuccess: formSuccess,
      .to: to, .alsoTo: alsoTo, .spool: spool, .tokenFile: tokenFile, .basicAuthFile: basicAuthFile,
      .tokenCommand: tokenCommand, .proxy: proxy, .noProxy: noProxy, .proxyAuthFile: proxyAuthFile,
      .clientCert: clientCert, .clientKey: clientKey,
      .formField: formField, .formExtra: Self.lines(formExtra), .formUnclear: formUnclear,
      .formDigestField: formDigestField, .formOmit: Self.lines(formOmit),
      .maxUploadSize: maxUploadSize, .s3Region: s3Region,
      .s3Profile: s3Profile, .s3Style: s3Style, .s3Checksum: s3Checksum, .s3IfExists: s3IfExists, .ifExists: ifExists,
      .tusProtocol: tusProtocol, .tusProfile: tusProfile, .tusMetadata: Self.lines(tusMetadata),
      .tusUnclear: tusUnclear, .ca: ca, .pin: Self.lines(pin), .transparency: transparency,
      .transparencyLogs: transparencyLogs,
      .destination: Self.lines(destination),
      .upload: upload, .interrupted: interrupted, .whenFull: whenFull, .ignore: Self.lines(ignore),
      .temporary: Self.lines(temporary), .nameTemplate: nameTemplate, .rule: Self.lines(rule),
      .chunkSize: chunkSize, .parallel: parallel,
      .reserve: reserve, .keep: keep, .maxFileSize: maxFileSize, .compress: compress, .http: http,
      .congestion: congestion, .threads: threads,
      .limitRate: Self.lines(limitRate), .uploadPriority: uploadPriority, .passthrough: passthrough, .reading: reading,
      .allowOther: allowOther.map(String.init), .allowPlainHTTP: allowPlainHTTP.map(String.init),
      .drainTimeout: drainTimeout, .expert: Self.lines(expert), .logLevel: logLevel,
    ]
    return texts.compactMapValues { $0 }
  }

  /// Flags, environment and file together, understood and checked.
  func configuration(environment: [String: String]) throws -> MountConfiguration {
    try MountConfiguration(try sources(environment: environment))
  }

  /// Flags, environment and file together, as they were written.
  func sources(environment: [String: String]) throws -> SettingSources {
    try SettingBytes.check(arguments: RawArguments.all)
    try SettingBytes.check(environment: RawArguments.variable)
    var sources = SettingSources()
    sources.add(flags: given)
    try sources.add(environment: environment)
    if let path = config ?? environment[Setting.configurationFileVariable] {
      let bytes: [UInt8]
      do {
        bytes = try WholeFile.readSettings(path, bytesMax: 1 << 20)
      } catch {
        let why = error.code == EINVAL ? "it is a pipe or a device; put a file there" : systemMessage(error.code)
        throw ConfigurationError("the configuration file \(path) cannot be read: \(why)")
      }
      try sources.add(file: try SettingBytes.text(ofFile: bytes, path: path), path: path)
    }
    if let folder = environment["CREDENTIALS_DIRECTORY"], folder.utf8.first == UInt8(ascii: "/") {
      sources.add(credentialsIn: folder) { access($0, R_OK) == 0 }
    }
    return sources
  }
}
