/// The name under which an actor keeps a descriptor, a directory stream or a mapping.
package struct Slot: Hashable, Sendable, Codable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let name: String

  package init(_ name: String) { self.name = name }

  package init(stringLiteral name: String) { self.name = name }

  package init(from decoder: any Decoder) throws { name = try decoder.singleValueContainer().decode(String.self) }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(name)
  }

  package var description: String { name }
}

/// A path as a system call gets it: below the current directory, which at first is the folder of the test, or below an open
/// directory.
package struct Path: Hashable, Sendable, Codable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The bytes; NUL cannot be among them.
  package var bytes: Bytes
  /// The open directory that the path begins at.
  package var directory: Slot?
  /// The path is /proc/self/fd/N of this descriptor, and `bytes` are empty.
  package var descriptor: Slot?

  package init(_ bytes: Bytes, in directory: Slot? = nil) {
    self.bytes = bytes
    self.directory = directory
  }

  package init(_ text: String, in directory: Slot? = nil) { self.init(Bytes(text), in: directory) }

  package init(stringLiteral text: String) { self.init(Bytes(text)) }

  /// The magic link of an open descriptor, as a path.
  package static func link(of descriptor: Slot) -> Path {
    var path = Path("")
    path.descriptor = descriptor
    return path
  }

  package var description: String {
    if let descriptor { return "/proc/self/fd/‹\(descriptor)›" }
    return (directory.map { "‹\($0)›/" } ?? "") + bytes.description
  }
}
