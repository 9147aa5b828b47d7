import Destinations
import Glibc
import MountConfiguration

/// Files that hold secrets: only the user who runs uploadfs may read them.
enum SecretFile {
  /// The whole file. Whether others could have read it is checked on the open file, so that it cannot be exchanged.
  static func read(_ path: String, what: String, bytesMax: Int = 64 << 10) throws(ToolFailure) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw unreadable(path, what, errno) }
    defer { close(descriptor) }
    try check(descriptor, path, what: what)
    do {
      return try WholeFile.read(descriptor, bytesMax: bytesMax)
    } catch {
      throw unreadable(path, what, error.code)
    }
  }

  /// The first line, without blanks around it.
  static func firstLine(of path: String, what: String) throws(ToolFailure) -> String {
    let bytes = try read(path, what: what)
    let line = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    let text = line.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed()
    guard !text.isEmpty else {
      throw ToolFailure(.destinationUnusable, "the \(what) file \(path) is empty; its first line must be the \(what)")
    }
    return String(text)
  }

  /// A private key: only where it is, libcurl reads it.
  static func checkKey(_ path: String) throws(ToolFailure) {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw unreadable(path, "client key", errno) }
    defer { close(descriptor) }
    try check(descriptor, path, what: "client key")
  }

  /// Refuses what others may read, or change.
  static func check(_ descriptor: Int32, _ path: String, what: String) throws(ToolFailure) {
    var facts = stat()
    guard fstat(descriptor, &facts) == 0 else { throw unreadable(path, what, errno) }
    guard facts.st_mode & 0o077 != 0, !isCredential(path) else { return }
    throw ToolFailure(
      .destinationUnusable,
      "the \(what) file \(path) can be read or changed by other users (mode \(octal(facts.st_mode & 0o777))); "
        + "run: chmod 600 \(path)")
  }

  /// systemd guards the folder of a service's credentials itself, and shows its access list as a group's mode bits.
  private static func isCredential(_ path: String) -> Bool {
    guard let folder = getenv("CREDENTIALS_DIRECTORY").map({ String(cString: $0) }),
      folder.utf8.first == UInt8(ascii: "/")
    else { return false }
    let inside = folder.utf8.last == UInt8(ascii: "/") ? folder : folder + "/"
    let leadsOut = path.unicodeScalars.split(separator: "/").contains { $0.elementsEqual("..".unicodeScalars) }
    return path.utf8.starts(with: inside.utf8) && !leadsOut
  }

  private static func octal(_ mode: mode_t) -> String {
    let digits = String(mode, radix: 8)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }

  private static func unreadable(_ path: String, _ what: String, _ code: Int32) -> ToolFailure {
    ToolFailure(.destinationUnusable, "the \(what) file \(path) cannot be read: \(systemMessage(code))")
  }
}

extension SecretFile {
  static func token(_ path: String) throws(ToolFailure) -> Credential {
    let token = try firstLine(of: path, what: "token")
    // Anything else could not stand in a header field, or would end it.
    guard token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw ToolFailure(
        .destinationUnusable, "the token file \(path) must hold the token alone on its first line, in ASCII")
    }
    return .bearer(token)
  }

  /// `user:password`.
  static func basic(_ path: String, what: String = "password") throws(ToolFailure) -> Credential {
    let line = try firstLine(of: path, what: what)
    guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else {
      throw ToolFailure(
        .destinationUnusable, "the \(what) file \(path) must hold user:password on its first line")
    }
    return .basic(user: String(line[..<colon]), password: String(line[line.index(after: colon)...]))
  }
}
