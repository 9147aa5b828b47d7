import TransferModel

/// What a response of an S3 server says of a failure, and the failures' meaning
/// (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html).
struct S3Answer {
  let response: HTTPResponse
  /// The body's root, where it is XML.
  let root: XMLElement?
  /// The error's name; nil for a success, and for a refusal without a body.
  let code: String?

  var status: Int { response.status }
  var isSuccess: Bool { (200..<300).contains(status) && !isPage }
  /// A page for people. Some servers call their XML HTML.
  var isPage: Bool { response.isPage && root.map { $0.name.lowercased() == "html" } ?? true }
  /// The response's own ETag, with its quotes.
  var entityTag: String? { Self.entityTag(response.header("etag")) }

  private static let entityTagBytesMax = 256

  init(_ response: HTTPResponse) {
    self.response = response
    root = response.body.isEmpty ? nil : XMLElement(response.body)
    code = root?.name == "Error" ? root?.child("Code")?.text : nil
  }

  /// An ETag that can be kept and sent back.
  static func entityTag(_ text: String?) -> String? {
    guard let text, !text.isEmpty, text.utf8.count <= entityTagBytesMax,
      text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
    else { return nil }
    return text
  }

  /// The upload is not there any more, or the key is taken: perhaps by what an earlier try has published.
  var mayMeanPublished: Bool {
    code == "NoSuchUpload" || code == "PreconditionFailed" || status == 412 || status == 404 && code == nil
  }

  /// What went wrong, for decisions and for people.
  /// `askedFeatures` are the settings that ask for what a server may not know.
  func failure(
    at address: String, region: String, renewsCredentials: Bool, askedFeatures: [String] = []
  ) -> StepFailure {
    let code = code ?? codeOfStatus
    let said = "The S3 server at \(address) answered \(PrintableText.beginning(of: code))\(message)"
    let retryAfter = RetryAfter.duration(of: response)
    // Whatever is said besides, a gateway says it.
    if let common = CommonStatus(status), common == .gateway { return common.failure(response, said) }
    switch code {
    case "NoSuchUpload": return StepFailure(.sessionGone, "\(said): it no longer knows the upload, which begins anew.")
    case "InvalidPart", "InvalidPartOrder", "OperationAborted", "ConditionalRequestConflict":
      return StepFailure(.conflict, "\(said); it will be asked which parts it holds.", retryAfter: retryAfter)
    case "RequestTimeout", "RequestTimeoutException":
      return StepFailure(.transport(.timedOut), "\(said).", retryAfter: retryAfter)
    case "SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestLimitExceeded",
      "BandwidthLimitExceeded", "TooManyRequests", "PriorRequestNotComplete", "XMinioServerNotInitialized":
      return StepFailure(.busy, "\(said): it asks for a pause.", retryAfter: retryAfter)
    case "InternalError": return StepFailure(.unexpectedAnswer, "\(said).", retryAfter: retryAfter)
    case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody":
      return StepFailure(.digestMismatch, "\(said): the bytes were damaged on the way.")
    case "EntityTooLarge": return StepFailure(.tooLarge(limitBytes: maximumBytes), "\(said): the file is too large.")
    case "KeyTooLongError": return StepFailure(.nameRefused, "\(said): with its prefix the name is too long.")
    case "PreconditionFailed":
      return StepFailure(
        .nameRefused,
        "\(said): there is an object of this name, which is not to be replaced, and no number finds room "
          + "in the name where one may be added. Rename the file, and it is tried again.")
    case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
      return StepFailure(.insufficientStorage, "\(said): its storage or the quota is full.", retryAfter: retryAfter)
    case _ where isUnknownToServer:
      let advice =
        askedFeatures.isEmpty
        ? "" : " These settings ask for it, perhaps; leave them out: \(askedFeatures.joined(separator: ", "))."
      return StepFailure(.badRequest, "\(said): it does not know something that the request asks for.\(advice)")
    default: return accessFailure(code, said, region, renewsCredentials)
    }
  }

  /// It will not do with the next try what it does not know: Swift says so by 501, and by complaints of XML and arguments.
  private var isUnknownToServer: Bool {
    switch code {
    case "NotImplemented", "XNotImplemented", "MalformedXML", "InvalidRequest", "InvalidArgument",
      "UnsupportedArgument":
      true
    case nil: status == 501
    default: false
    }
  }

  /// The credentials have ended; MinIO says InvalidTokenId.
  var isExpired: Bool {
    switch code {
    case "ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidTokenId", "RequestExpired": true
    default: false
    }
  }

  /// Failures for which a user has to check the settings, and what the status alone says.
  private func accessFailure(
    _ code: String, _ said: String, _ region: String, _ renewsCredentials: Bool
  ) -> StepFailure {
    switch code {
    case _ where isExpired:
      // Others are on their way.
      guard !renewsCredentials else { return StepFailure(.busy, "\(said): newer credentials are awaited.") }
      return StepFailure(.unauthorized, "\(said): the credentials have expired; provide others and start again.")
    case "RequestTimeTooSkewed":
      return StepFailure(.busy, "\(said): the clocks of this machine and the server differ; set this machine's clock.")
    case "InvalidAccessKeyId", "SignatureDoesNotMatch":
      return StepFailure(.unauthorized, "\(said): check the access key, its secret and the region (\(region)).")
    case "AccessDenied", "AllAccessDisabled", "AccountProblem":
      return StepFailure(.forbidden, "\(said): the credentials may not write to this bucket.")
    case "NoSuchBucket": return StepFailure(.badRequest, "\(said): there is no such bucket; make it, or correct --to.")
    case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
      "InvalidRegion":
      let right = response.header("x-amz-bucket-region") ?? root?.child("Region")?.text
      let advice =
        right.map { "set --s3-region \(PrintableText.beginning(of: $0))" } ?? "set --s3-region and the right endpoint"
      return StepFailure(.badRequest, "\(said): the bucket is not in the region \(region); \(advice).")
    case "EntityTooSmall":
      return StepFailure(.badRequest, "\(said): it wants larger parts; set --chunk-size to a larger size.")
    default: return statusFailure(said)
    }
  }

  private func statusFailure(_ said: String) -> StepFailure {
    let retryAfter = RetryAfter.duration(of: response)
    switch status {
    case 300..<400 where code == nil, _ where root == nil && response.isExplainedByItsMarkAlone:
      // S3 names what is wrong; this is something in between.
      let elsewhere = (300..<400).contains(status) ? ", and leads elsewhere\(CommonStatus.place(of: response))" : ""
      return StepFailure(
        .misdirected,
        "\(said), without a word of S3\(elsewhere); it is asked again. Check --to, the credentials, and what lies between.",
        retryAfter: retryAfter)
    default: break
    }
    if let common = CommonStatus(status) {
      return common.failure(response, said, own: ownWords(for: common, said))
    }
    switch status {
    case 404: return StepFailure(.badRequest, "\(said): nothing answers there.")
    case 409: return StepFailure(.conflict, "\(said).", retryAfter: retryAfter)
    case 413:
      return StepFailure(
        root == nil ? .requestTooLarge : .tooLarge(limitBytes: nil),
        "\(said): a request is longer than it, or a proxy before it, takes. Raise the limit there; it is usually one of: "
          + "\(RequestLimitAdvice.settings).")
    // S3 fails single requests in this way while it takes others: nothing else is to wait for this one.
    case 500...599: return StepFailure(.unexpectedAnswer, "\(said).", retryAfter: retryAfter)
    case 400..<500: return StepFailure(.badRequest, "\(said).")
    default: return StepFailure(.unexpectedAnswer, "\(said), which is not expected.")
    }
  }

  private func ownWords(for common: CommonStatus, _ said: String) -> String? {
    switch common {
    case .unauthorized: "\(said): check the access key and its secret."
    case .forbidden: "\(said): the credentials may not do this."
    case .leadsElsewhere, .proxyWantsPassword, .timedOut, .tooEarly, .busy, .full, .gateway, .networkWantsLogin: nil
    }
  }

  /// A refusal without a name, as HEAD gives.
  private var codeOfStatus: String {
    switch status {
    case 301 where namesRegion: "PermanentRedirect"
    case 307 where namesRegion: "TemporaryRedirect"
    case 412: "PreconditionFailed"
    case 507: "InsufficientStorage"
    default: "HTTP status \(status)"
    }
  }

  /// Of the bucket, which only S3 knows.
  private var namesRegion: Bool { response.header("x-amz-bucket-region") != nil }

  private var maximumBytes: UInt64? { root?.child("MaxSizeAllowed").flatMap { UInt64($0.text) } }

  private var message: String {
    guard let text = root?.child("Message")?.text, !text.isEmpty else { return "" }
    return " (“\(PrintableText.beginning(of: text))”)"
  }
}
