import Glibc
import Logging
import MountConfiguration

/// The bearer token that the destination wants, from a file.
enum TokenFile {
  /// The first line, without blanks around it.
  static func read(_ path: String, logger: Logger) throws(ToolFailure) -> String {
    let bytes: [UInt8]
    do {
      bytes = try WholeFile.read(path, bytesMax: 64 << 10)
    } catch {
      throw ToolFailure(.destinationUnusable, "the token file \(path) cannot be read: \(systemMessage(error.code))")
    }
    let line = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    let token = line.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed()
    guard !token.isEmpty else {
      throw ToolFailure(.destinationUnusable, "the token file \(path) is empty; its first line must be the token")
    }
    // Anything else could not stand in a header field, or would end it.
    guard token.allSatisfy({ $0.isASCII && !$0.isWhitespace && $0.asciiValue.map { $0 > 0x20 && $0 < 0x7f } == true })
    else {
      throw ToolFailure(
        .destinationUnusable, "the token file \(path) must hold the token alone on its first line, in ASCII")
    }
    var facts = stat()
    if stat(path, &facts) == 0, facts.st_mode & 0o004 != 0 {
      logger.warning("the token file is readable by everyone; run: chmod 600 \(path)")
    }
    return String(token)
  }
}
