import Promises
import Synchronization
import Testing

@testable import Destinations

/// An environment and files of a test.
private final class TestPlaces: CredentialPlaces {
  private struct State {
    var variables: [String: String]
    var files: [String: String]
    var printed: String?
  }

  private let state: Mutex<State>

  init(variables: [String: String] = [:], files: [String: String] = [:], printed: String? = nil) {
    state = Mutex(State(variables: variables, files: files, printed: printed))
  }

  func put(_ text: String, in path: String) { state.withLock { $0.files[path] = text } }
  func setOutput(_ text: String) { state.withLock { $0.printed = text } }

  func variable(_ name: String) -> String? { state.withLock { $0.variables[name] } }
  func check(variables names: [String]) throws(DestinationError) {}

  func text(
    ofFile path: String, called what: String, isSecret: (_ text: String) -> Bool
  ) throws(DestinationError) -> String {
    state.withLock { $0.files[path] } ?? ""
  }

  func output(of command: String, called name: String) throws(DestinationError) -> [UInt8] {
    guard let printed = state.withLock({ $0.printed }) else {
      throw DestinationError(.invalidCredential, "the \(name) ended with 1")
    }
    return Array(printed.utf8)
  }
}

@Suite struct S3CredentialSourceTests {
  private static let keys = ["AWS_ACCESS_KEY_ID": "AKENV", "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/h"]

  private static func file(_ id: String, profile: String = "default") -> String {
    "[\(profile)]\naws_access_key_id=\(id)\naws_secret_access_key=secret\n"
  }

  private static func answer(_ id: String) -> String {
    #"{"Version":1,"AccessKeyId":"\#(id)","SecretAccessKey":"secret","Expiration":"2013-05-24T00:00:00Z"}"#
  }

  @Test(.promises("DE15")) func theEnvironmentsKeys_winUnlessAProfileIsNamed() throws {
    let places = TestPlaces(variables: Self.keys, files: ["/h/.aws/credentials": Self.file("AKFILE", profile: "p")])
    let ofEnvironment = try S3CredentialSource(profile: nil, places: places)
    #expect(ofEnvironment.credentials.accessKeyID == "AKENV" && !ofEnvironment.renews)
    let ofProfile = try S3CredentialSource(profile: "p", places: places)
    #expect(ofProfile.credentials.accessKeyID == "AKFILE" && ofProfile.renews)
  }

  @Test func whatAFileHoldsLater_isTaken_andWhatItDoesNotHoldChangesNothing() throws {
    let places = TestPlaces(variables: ["HOME": "/h"], files: ["/h/.aws/credentials": Self.file("AKFIRST")])
    let source = try S3CredentialSource(profile: nil, places: places)
    places.put(Self.file("AKSECOND"), in: "/h/.aws/credentials")
    #expect(source.credentials.accessKeyID == "AKFIRST")
    try source.renew(runsCommands: false)
    #expect(source.credentials.accessKeyID == "AKSECOND")
    places.put("", in: "/h/.aws/credentials")
    try source.renew(runsCommands: false)
    #expect(source.credentials.accessKeyID == "AKSECOND")
  }

  @Test func aCommand_isRunWhereItMayBe() throws {
    let places = TestPlaces(
      variables: ["AWS_CONFIG_FILE": "/c"], files: ["/c": "[default]\ncredential_process = keys\n"],
      printed: Self.answer("AKFIRST"))
    let source = try S3CredentialSource(profile: nil, places: places)
    #expect(source.expiresAtSeconds == 1_369_353_600)
    places.setOutput(Self.answer("AKSECOND"))
    try source.renew(runsCommands: false)
    #expect(source.credentials.accessKeyID == "AKFIRST")
    try source.renew(runsCommands: true)
    #expect(source.credentials.accessKeyID == "AKSECOND")
    places.setOutput("")
    #expect(throws: DestinationError.self) { try source.renew(runsCommands: true) }
    #expect(source.credentials.accessKeyID == "AKSECOND")
  }

  @Test(
    arguments: [
      (nil, [:], "there are no S3 credentials: set AWS_ACCESS_KEY_ID"), ("p", [:], "know no profile “p”"),
      (nil, ["AWS_PROFILE": "q"], "know no profile “q”"),
      (
        nil, ["AWS_ACCESS_KEY_ID": "a b", "AWS_SECRET_ACCESS_KEY": "s"],
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: The S3 access key"
      ),
    ] as [(String?, [String: String], String)])
  func withoutAny_itIsSaidWhy(profile: String?, variables: [String: String], expected: String) {
    do throws(DestinationError) {
      _ = try S3CredentialSource(profile: profile, places: TestPlaces(variables: variables))
      Issue.record("credentials were found")
    } catch {
      #expect(error.message.contains(expected), "\(error.message)")
      #expect(error.code == .invalidCredential)
    }
  }
}
