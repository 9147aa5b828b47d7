import Lookup
import RawStructuredFieldValues
import TransferModel

/// What a server takes: the `Upload-Limit` field.
struct ResumableLimits: Hashable {
  /// Of a file, in bytes.
  private(set) var sizeBytesMin: UInt64?
  private(set) var sizeBytesMax: UInt64?
  /// Of one request, in bytes. The one that completes an upload may be shorter.
  private(set) var requestBytesMin: UInt64?
  private(set) var requestBytesMax: UInt64?
  /// How long the upload is kept from now on.
  private(set) var ageSecondsMax: UInt64?

  init() {}

  /// Nil where there is no such field, or one that is to be ignored: unknown keys are, and a field in which a known one has
  /// another value than a number.
  init?(_ response: HTTPResponse) {
    guard let members = response.structured("upload-limit").flatMap(StructuredField.dictionary) else { return nil }
    func number(_ key: String) -> UInt64?? {
      guard let value = members[key] else { return .some(nil) }
      guard case .item(let item) = value, case .integer(let number) = item.rfc9651BareItem else { return nil }
      return UInt64(exactly: number).map { .some($0) }
    }
    guard let sizeBytesMin = number("min-size"), let sizeBytesMax = number("max-size"),
      let requestBytesMin = number("min-append-size"), let requestBytesMax = number("max-append-size"),
      let ageSecondsMax = number("max-age")
    else { return nil }
    self.sizeBytesMin = sizeBytesMin
    self.sizeBytesMax = sizeBytesMax
    self.requestBytesMin = requestBytesMin
    self.requestBytesMax = requestBytesMax
    self.ageSecondsMax = ageSecondsMax
  }

  /// These, and what another answer says beside them: the narrower counts.
  func narrowed(by other: ResumableLimits?) -> ResumableLimits {
    guard let other else { return self }
    var limits = self
    limits.sizeBytesMin = [sizeBytesMin, other.sizeBytesMin].compactMap { $0 }.max()
    limits.sizeBytesMax = [sizeBytesMax, other.sizeBytesMax].compactMap { $0 }.min()
    limits.requestBytesMin = [requestBytesMin, other.requestBytesMin].compactMap { $0 }.max()
    limits.requestBytesMax = [requestBytesMax, other.requestBytesMax].compactMap { $0 }.min()
    limits.ageSecondsMax = other.ageSecondsMax ?? ageSecondsMax
    return limits
  }

  /// With no more in one request than this.
  func narrowed(to requestBytesMax: UInt64?) -> ResumableLimits {
    var limits = self
    limits.requestBytesMax = [requestBytesMax, self.requestBytesMax].compactMap { $0 }.min()
    return limits
  }

  /// How long a chunk may be that was to have this length; nil where none within these limits can be sent.
  func chunkBytes(for wanted: Int) -> Int? {
    var bytes = wanted
    if let most = requestBytesMax, most < UInt64(wanted) {
      // The file's pages are read whole.
      bytes = Int(most) / Self.pageBytes * Self.pageBytes
    }
    guard bytes >= min(wanted, Self.chunkBytesMin), UInt64(bytes) >= requestBytesMin ?? 0 else { return nil }
    return bytes
  }

  /// Shorter ones would be too many.
  static let chunkBytesMin = 64 << 10
  private static let pageBytes = 4096
}
