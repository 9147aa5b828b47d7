import Glibc

/// The errno with which a filesystem call fails: the one table of the module.
struct SystemError: Error, Hashable {
  /// A positive errno.
  let code: Int32
  /// Found out here: the node table knows it, and no disk has said so.
  private let isOurs: Bool

  init(code: Int32) {
    self.init(code: code, isOurs: false)
  }

  private init(code: Int32, isOurs: Bool) {
    self.code = code
    self.isOurs = isOurs
  }

  /// What the last system call of this thread left in errno.
  static var last: SystemError { SystemError(code: errno) }

  static let notPermitted = SystemError(code: EPERM)
  static let notFound = SystemError(code: ENOENT)
  static let inputOutput = SystemError(code: EIO)
  static let interrupted = SystemError(code: EINTR)
  static let wouldBlock = SystemError(code: EAGAIN)
  static let badDescriptor = SystemError(code: EBADF)
  static let accessDenied = SystemError(code: EACCES)
  static let exists = SystemError(code: EEXIST)
  static let notDirectory = SystemError(code: ENOTDIR)
  static let isDirectory = SystemError(code: EISDIR)
  static let invalid = SystemError(code: EINVAL)
  static let tooLarge = SystemError(code: EFBIG)
  static let tooManyOpen = SystemError(code: ENFILE)
  static let noSpace = SystemError(code: ENOSPC)
  static let readOnly = SystemError(code: EROFS)
  static let outOfRange = SystemError(code: ENXIO)
  static let notSupported = SystemError(code: EOPNOTSUPP)
  static let crossDevice = SystemError(code: EXDEV)
  /// The node is known but stands nowhere any more. The kernel answers by looking the path up again. A disk that says ESTALE itself
  /// (NFS, 9p) cannot say what stands there, and its error is another one than this.
  static let stale = SystemError(code: ESTALE, isOurs: true)
}

extension SystemError {
  /// Nothing stands there, or something else does; as opposed to a disk that cannot say.
  var isAbsence: Bool { [ENOENT, ENOTDIR, ELOOP].contains(code) || self == .stale }

  /// The disk, or a quota, has no place left: neither bytes nor, perhaps, inodes.
  var isOfSpace: Bool { [ENOSPC, EDQUOT].contains(code) }

  /// Whether an attribute was found, by what a call gave that reads one: an empty one and a filesystem without attributes have
  /// none.
  static func isPresent(attributeOf count: Int) throws(SystemError) -> Bool {
    guard count < 0 else { return count > 0 }
    let error = SystemError.last
    guard error.code == ENODATA || error.code == EOPNOTSUPP else { throw error }
    return false
  }
}

/// Repeats a system call that a signal interrupted.
func retryingInterrupts(_ call: () -> Int) throws(SystemError) -> Int {
  while true {
    let result = call()
    if result >= 0 { return result }
    if errno != EINTR { throw .last }
  }
}

/// Throws what errno says when a system call returned a negative number.
@discardableResult
func check(_ result: Int32) throws(SystemError) -> Int32 {
  guard result >= 0 else { throw .last }
  return result
}
