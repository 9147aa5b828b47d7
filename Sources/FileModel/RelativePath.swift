/// A path below the mount's root, as the kernel gave it: raw bytes, `/`-separated, no leading slash.
///
/// Linux allows every byte but `/` and NUL in a name, so this is not a `String`. The empty path is the root itself.
public struct RelativePath: Hashable, Sendable, Comparable {
  /// The path's bytes, without a terminating NUL.
  public let bytes: [UInt8]

  /// A path of the given bytes, which hold no NUL and neither start nor end with `/`.
  public init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// A path of a string's UTF-8 bytes.
  public init(_ text: String) {
    self.bytes = Array(text.utf8)
  }

  /// The mount's root.
  public static let root = RelativePath(bytes: [])

  /// This path with one more component.
  public func appending(_ component: [UInt8]) -> RelativePath {
    bytes.isEmpty ? RelativePath(bytes: component) : RelativePath(bytes: bytes + [UInt8(ascii: "/")] + component)
  }

  /// The components, outermost first; empty for the root.
  public var components: [ArraySlice<UInt8>] {
    bytes.split(separator: UInt8(ascii: "/"))
  }

  /// The last component; empty for the root.
  public var lastComponent: ArraySlice<UInt8> {
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return bytes[...] }
    return bytes[(slash + 1)...]
  }

  /// The path of the directory that holds this entry; the root's parent is the root.
  public var parent: RelativePath {
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return .root }
    return RelativePath(bytes: Array(bytes[..<slash]))
  }

  /// The path for people: bytes that are no UTF-8 appear as U+FFFD. Never use it to reach the file.
  public var displayText: String {
    String(decoding: bytes, as: UTF8.self)
  }

  /// Byte order, so that listings are stable in every locale.
  public static func < (left: RelativePath, right: RelativePath) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}
