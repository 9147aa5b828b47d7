/// What users call a destination where there are several.
public struct DestinationName: Hashable, Sendable, CustomStringConvertible {
  /// Small letters, digits and hyphens: it is part of file names and of JSON.
  public let text: String

  /// The one that `--to` gives.
  public static let main = DestinationName(trusted: "main")

  private static let lengthMax = 32

  private init(trusted text: String) {
    self.text = text
  }

  /// Nil for a text that is no name: 1 to 32 small letters, digits and hyphens, of which the first is no hyphen.
  public init?(_ text: String) {
    let isPlain = text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): true
      default: false
      }
    }
    guard isPlain, !text.isEmpty, text.utf8.count <= Self.lengthMax, !text.hasPrefix("-") else { return nil }
    self.text = text
  }

  /// The name itself.
  public var description: String { text }
}
