import Lookup
import TransferModel

/// What a server says of itself when it is asked with OPTIONS.
struct TusFeatures: Hashable {
  /// A checksum of a request's body.
  enum Checksum: String, CaseIterable {
    // Best first. The first is known already, the second is the one that every server with checksums has.
    case sha256
    case sha1
  }

  private(set) var extensions: LookupSet<String> = []
  private(set) var checksum: Checksum?
  private(set) var fileBytesMax: UInt64?

  var concatenates: Bool { extensions.contains("concatenation") }
  var takesBodyAtCreation: Bool { extensions.contains("creation-with-upload") }
  /// An upload can be ended before it is complete.
  var terminates: Bool { extensions.contains("termination") }
  /// An upload can be begun before its length is known.
  var defersLength: Bool { extensions.contains("creation-defer-length") }
  /// Partial uploads can be joined before they are complete; the joined one is complete with the last of them.
  var joinsUnfinished: Bool { concatenates && extensions.contains("concatenation-unfinished") }

  init() {}

  /// Nil for any other answer: only this one has no offset and no location, and names version or extensions.
  init?(_ response: HTTPResponse) {
    guard response.status == 200 || response.status == 204, response.header("upload-offset") == nil,
      response.header("location") == nil, response.header("upload-expires") == nil
    else { return nil }
    let (versions, extensions) = (response.header("tus-version"), response.header("tus-extension"))
    guard versions != nil || extensions != nil,
      versions.map({ Self.list($0).contains(TusDestination.version) }) ?? true
    else { return nil }
    self.extensions = LookupSet(Self.list(extensions))
    if self.extensions.contains("checksum") {
      let algorithms = Self.list(response.header("tus-checksum-algorithm"))
      checksum = Checksum.allCases.first { algorithms.contains($0.rawValue) }
    }
    fileBytesMax = response.header("tus-max-size").flatMap { UInt64($0) }.flatMap { $0 > 0 ? $0 : nil }
  }

  private static func list(_ text: String?) -> [String] {
    (text ?? "").split { $0 == "," || $0 == " " }.map { $0.lowercased() }
  }
}
