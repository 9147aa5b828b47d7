import TransferModel

/// What a server says of resumable uploads when it is asked with OPTIONS.
struct ResumableFeatures: Hashable {
  /// What it takes.
  var limits: ResumableLimits
  /// It says so by the media type that it takes, as drafts from 10 on want it, or by the version. What is left are limits,
  /// which servers of earlier versions announce as well.
  private(set) var isCertain: Bool

  /// Nil for any other answer, also for one of another version.
  init?(_ response: HTTPResponse) {
    guard (200..<300).contains(response.status), response.header("location") == nil,
      response.header("upload-offset") == nil, response.header("upload-complete") == nil,
      Self.version(in: response) ?? ResumableDestination.interopVersion == ResumableDestination.interopVersion
    else { return nil }
    let takesPatches = Self.mediaTypes(response.structured("accept-patch")).contains(ResumableDestination.mediaType)
    let limits = ResumableLimits(response)
    guard takesPatches || limits != nil || Self.version(in: response) != nil else { return nil }
    self.limits = limits ?? ResumableLimits()
    isCertain = takesPatches || Self.version(in: response) != nil
  }

  /// The version that an answer names.
  static func version(in response: HTTPResponse) -> UInt64? {
    response.structuredNumber("upload-draft-interop-version")
  }

  private static func mediaTypes(_ text: String?) -> [String] {
    (text ?? "").split(separator: ",").map { entry in
      entry.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
  }
}
