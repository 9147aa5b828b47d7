import ChunkProtocol
import Integrity
import Promises
import Testing

@testable import Destinations

/// Values that AWS publishes: the examples of "Signature Calculations for the Authorization Header" in the S3 API
/// reference (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html), and the cases of the
/// Signature Version 4 test suite (https://docs.aws.amazon.com/general/latest/gr/signature-v4-test-suite.html).
@Suite struct SignatureV4Tests {
  private static let emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
  private static let noon2013 = SigningTime(secondsSince1970: 1_369_353_600)

  private static func credentials(_ id: String, _ secret: String) throws -> S3Credentials {
    try S3Credentials(accessKeyID: id, secretAccessKey: secret)
  }

  struct Example: Sendable {
    var method = "GET"
    var path = "/"
    var query: [(name: String, value: String)] = []
    var headers: [(name: String, value: String)] = []
    var payload = SignatureV4Tests.emptyDigest
    var signedHeaders = "host;x-amz-content-sha256;x-amz-date"
    var signature: String
  }

  static let examples = [
    Example(
      path: "/test.txt", headers: [("Range", "bytes=0-9")],
      signedHeaders: "host;range;x-amz-content-sha256;x-amz-date",
      signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    Example(
      method: "PUT", path: "/" + PercentCoding.encode("test$file.text", keepsSlashes: true),
      headers: [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
      payload: Hex.encode(sha256(Array("Welcome to Amazon S3.".utf8))),
      signedHeaders: "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
      signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    Example(
      query: [("lifecycle", "")], signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    Example(
      query: [("prefix", "J"), ("max-keys", "2")],
      signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
  ]

  @Test(.promises("DE21"), arguments: examples)
  func exampleOfS3_isSignedAsPublished(example: Example) throws {
    let authorization = SignatureV4(region: "us-east-1").authorization(
      for: SignatureV4.Request(
        method: example.method, path: example.path, query: S3Query(example.query),
        headers: example.headers + [
          ("Host", "examplebucket.s3.amazonaws.com"), ("x-amz-content-sha256", example.payload),
          ("x-amz-date", Self.noon2013.timestamp),
        ], payloadSHA256: example.payload),
      at: Self.noon2013,
      with: try Self.credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
    #expect(
      authorization == "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        + "SignedHeaders=\(example.signedHeaders), Signature=\(example.signature)")
  }

  @Test func getVanillaOfTheTestSuite_isSignedAsPublished() throws {
    let time = SigningTime(secondsSince1970: 1_440_938_160)
    #expect(time.timestamp == "20150830T123600Z")
    let authorization = SignatureV4(region: "us-east-1", service: "service").authorization(
      for: SignatureV4.Request(
        method: "GET", path: "/", query: S3Query(),
        headers: [("Host", "example.amazonaws.com"), ("X-Amz-Date", time.timestamp)],
        payloadSHA256: Self.emptyDigest),
      at: time, with: try Self.credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"))
    #expect(authorization.hasSuffix("Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"))
  }

  @Test(
    arguments: [
      (0, "19700101T000000Z"), (951_782_399, "20000228T235959Z"), (951_782_400, "20000229T000000Z"),
      (1_709_251_199, "20240229T235959Z"), (4_102_444_800, "21000101T000000Z"), (-1, "19691231T235959Z"),
    ] as [(Int64, String)])
  func time_isWrittenByTheCalendar(seconds: Int64, text: String) {
    #expect(SigningTime(secondsSince1970: seconds).timestamp == text)
  }

  @Test func query_isSortedByItsEncodedNames_andAlwaysHasAnEqualsSign() {
    let query = S3Query([("uploadId", "a+b/c="), ("partNumber", "7"), ("uploads", "")])
    #expect(query.canonicalText == "partNumber=7&uploadId=a%2Bb%2Fc%3D&uploads=")
  }

  @Test func percentEncoding_keepsWhatS3Keeps_andComesBack() {
    let text = "a b/ä~*'%\u{7f}+&=?#"
    #expect(PercentCoding.encode(text, keepsSlashes: true) == "a%20b/%C3%A4~%2A%27%25%7F%2B%26%3D%3F%23")
    #expect(PercentCoding.decode(PercentCoding.encode(text)) == text)
    #expect(PercentCoding.decode("%") == nil)
    #expect(PercentCoding.decode("%4") == nil)
    #expect(PercentCoding.decode("%zz") == nil)
    #expect(PercentCoding.decode("%ff") == nil)
  }

  @Test(.promises("DE17")) func credentials_doNotShowTheirSecret() throws {
    let credentials = try S3Credentials(accessKeyID: "id", secretAccessKey: "hidden", sessionToken: "veiled")
    #expect(!"\(credentials) \(String(reflecting: credentials))".contains("hidden"))
    var dumped = ""
    dump(credentials, to: &dumped)
    #expect(!dumped.contains("hidden") && !dumped.contains("veiled"))
  }

  @Test(arguments: [("", "s"), ("a", ""), ("a b", "s"), ("a", "s\r\nx: y"), ("a/b", "s"), ("a,b", "s")])
  func credentialsThatCannotBeSent_areRefused(id: String, secret: String) {
    #expect(throws: DestinationError.self) { try S3Credentials(accessKeyID: id, secretAccessKey: secret) }
  }
}
