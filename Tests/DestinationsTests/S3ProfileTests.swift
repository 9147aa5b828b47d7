import Promises
import Quantities
import Testing

@testable import Destinations

@Suite struct S3ProfileTests {
  private func profile(_ name: String, _ credentials: String, _ configuration: String = "") throws -> S3Profile? {
    try S3Profile(name, credentialsFile: credentials, configurationFile: configuration)
  }

  @Test(.promises("DE15")) func keys_areThoseOfTheProfile() throws {
    let file = """
      # a comment
      [default]
      aws_access_key_id = AKDEFAULT
      aws_secret_access_key=a=b/c+d
      s3 =
        nested = no

      [ archive ]
      AWS_ACCESS_KEY_ID = AKARCHIVE\r
      aws_secret_access_key = secret\r
      aws_session_token = token
      """
    #expect(
      try profile("default", file)?.credentials == S3Credentials(accessKeyID: "AKDEFAULT", secretAccessKey: "a=b/c+d"))
    #expect(
      try profile("archive", file)?.credentials
        == S3Credentials(accessKeyID: "AKARCHIVE", secretAccessKey: "secret", sessionToken: "token"))
    #expect(try profile("other", file) == nil)
    #expect(try profile("default", "") == nil)
  }

  @Test(.promises("DE15")) func command_standsInEitherFile_andKeysWinOverIt() throws {
    let configuration =
      "[profile a]\nregion = x\ncredential_process = /bin/keys --for \"a b\"\n[default]\ncredential_process = d"
    #expect(try profile("a", "", configuration)?.credentialProcess == "/bin/keys --for \"a b\"")
    #expect(try profile("default", "", configuration)?.credentialProcess == "d")
    #expect(try profile("a", "[a]\ncredential_process = own", configuration)?.credentialProcess == "own")
    let both = try profile("a", "[a]\naws_access_key_id = k\naws_secret_access_key = s", configuration)
    #expect(both?.credentials != nil && both?.credentialProcess == nil)
  }

  @Test(.promises("DE15")) func outputOfACommand_givesKeysAndTheirEnd() throws {
    let text =
      #"{"Version":1,"AccessKeyId":"k","SecretAccessKey":"s","SessionToken":"t","Expiration":"2013-05-24T02:00:00+02:00"}"#
    #expect(
      try S3Credentials(processOutput: Array(text.utf8))
        == S3Credentials(accessKeyID: "k", secretAccessKey: "s", sessionToken: "t", expiresAtSeconds: 1_369_353_600))
  }

  @Test(arguments: [
    "", "{}", #"{"Version":2,"AccessKeyId":"k","SecretAccessKey":"hidden"}"#,
    #"{"Version":1,"AccessKeyId":"k"}"#,
    #"{"Version":1,"AccessKeyId":"k","SecretAccessKey":"hidden","Expiration":"soon"}"#,
    #"{"Version":1,"AccessKeyId":"k","SecretAccessKey":"hidden\n"}"#,
  ])
  func outputThatIsNone_isRefusedWithoutShowingIt(text: String) {
    do {
      _ = try S3Credentials(processOutput: Array(text.utf8))
      Issue.record("accepted")
    } catch {
      #expect(!"\(error)".contains("hidden"))
    }
  }

  @Test(
    arguments: [
      ("1970-01-01T00:00:00Z", 0), ("2013-05-24T00:00:00.123Z", 1_369_353_600),
      ("2013-05-23T22:30:00-01:30", 1_369_353_600),
      ("2013-05-24", nil), ("2013-05-24T00:00:00", nil), ("2013-13-24T00:00:00Z", nil), ("2013-05-24T00:00:00+2", nil),
      ("2013-05-24T24:00:00Z", nil), ("2013-05-24T00:00:00ä", nil), ("2013-05-24T00:00:00+02:0x", nil),
    ] as [(String, Int64?)])
  func times_areRead(text: String, seconds: Int64?) {
    #expect(Timestamp.seconds(text) == seconds)
  }
}
