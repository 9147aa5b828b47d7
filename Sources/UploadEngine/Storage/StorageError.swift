import Glibc

/// Why something could not be kept on, or read from, the local disk.
public struct StorageError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What went wrong, for decisions.
  public enum Kind: Hashable, Sendable {
    /// Another process uses the spool; its number, when it left one.
    case inUse(pid: Int32?)
    /// The disk or the user's quota is full.
    case full
    /// The content on disk cannot be understood.
    case damaged
    /// A newer version of this software wrote it.
    case newerVersion
    /// It has been closed.
    case closed
    /// What was to be written does not fit the format; nothing was touched.
    case invalid
    /// Another failure of the system, with its errno.
    case system(errno: Int32)
  }

  /// What went wrong, for decisions.
  public var kind: Kind
  /// What went wrong, for people: one line that names the path and holds no secret.
  public var message: String

  /// An error of this kind.
  public init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }

  /// The line for people.
  public var description: String { message }

  /// The failure of a system call; `action` reads on from "cannot".
  static func system(_ code: Int32, cannot action: String) -> StorageError {
    let kind: Kind = code == ENOSPC || code == EDQUOT ? .full : .system(errno: code)
    return StorageError(kind, "cannot \(action): \(String(cString: strerror(code)))")
  }
}

/// A path as it is given to the user: never a place where a secret could be.
func quoted(_ path: String) -> String { "'\(path)'" }
