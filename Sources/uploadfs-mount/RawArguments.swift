import Glibc

/// The command line as the kernel has it: a name that is no UTF-8 is a name all the same.
enum RawArguments {
  /// The bytes of arguments that were parsed as texts, in their order and behind another one.
  static func bytes(of texts: [String], after earlier: String) -> [[UInt8]] {
    var left = all[...]
    if let place = left.firstIndex(where: { isSame($0, earlier) }) { left = left[(place + 1)...] }
    return texts.map { text in
      guard let place = left.firstIndex(where: { isSame($0, text) }) else { return Array(text.utf8) }
      defer { left = left[(place + 1)...] }
      return left[place]
    }
  }

  private static func isSame(_ bytes: [UInt8], _ text: String) -> Bool {
    String(decoding: bytes, as: UTF8.self).utf8.elementsEqual(text.utf8)
  }

  /// All of them, the process's name first.
  static var all: [[UInt8]] {
    (0..<Int(CommandLine.argc)).compactMap { index in CommandLine.unsafeArgv[index].map { bytes(of: $0) } }
  }

  static func variable(_ name: String) -> [UInt8]? { getenv(name).map { bytes(of: $0) } }

  private static func bytes(of text: UnsafePointer<CChar>) -> [UInt8] {
    (0..<strlen(text)).map { UInt8(bitPattern: text[Int($0)]) }
  }
}
