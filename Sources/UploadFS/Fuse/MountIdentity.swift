import Glibc

/// A mount as the kernel lists it, which stays the same one wherever it is moved.
struct MountIdentity: Hashable, Sendable {
  /// Of the mount and of its filesystem: the number of a mount is given again after its end.
  private let numbers: [Substring]

  /// The uppermost one at a path; nil where the kernel lists none. `mountinfo`: as in `/proc/self/mountinfo` (proc(5)).
  init?(at path: String, in mountinfo: String) {
    let found = Self.lines(mountinfo).last { $0.path == path }
    guard let found else { return nil }
    numbers = found.numbers
  }

  /// Where it is now; nil where it is no more, or cannot be seen from here.
  func path(in mountinfo: String) -> String? {
    Self.lines(mountinfo).first { $0.numbers == numbers }?.path
  }

  /// What kind of filesystem is mounted at a path, on top of others; nil when none is.
  static func kind(at path: String, in mountinfo: String) -> String? {
    lines(mountinfo).last { $0.path == path }?.kind
  }

  private static func lines(_ mountinfo: String) -> [(numbers: [Substring], path: String, kind: String?)] {
    mountinfo.split(separator: "\n").compactMap { line in
      // id parent major:minor root point options tags… - kind source …
      let fields = line.split(separator: " ")
      guard fields.count > 4 else { return nil }
      let kind = fields.firstIndex(of: "-").flatMap { fields.dropFirst($0 + 1).first }
      return ([fields[0], fields[2]], unescaped(fields[4]), kind.map(String.init))
    }
  }

  /// Blanks, line ends and backslashes stand there in octal.
  private static func unescaped(_ text: Substring) -> String {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      let digits = rest.prefix(3)
      if byte == UInt8(ascii: "\\"), digits.count == 3,
        let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
      {
        bytes.append(value)
        rest = rest.dropFirst(3)
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
