import FilesystemCalls
import Glibc

extension Answer {
  /// What stat(2) said.
  var status: Status? {
    if case .status(let status) = self { return status }
    return nil
  }

  /// What readdir(3) said.
  var names: [Bytes] {
    if case .names(let names) = self { return names }
    return []
  }

  var number: Int64? {
    if case .number(let number) = self { return number }
    return nil
  }
}

extension Errno {
  static let notPermitted = Errno(EPERM)
  static let notFound = Errno(ENOENT)
  static let accessDenied = Errno(EACCES)
  static let exists = Errno(EEXIST)
  static let invalid = Errno(EINVAL)
  static let nameTooLong = Errno(ENAMETOOLONG)
  static let noSpace = Errno(ENOSPC)
  static let tooLarge = Errno(EFBIG)
  static let notSupported = Errno(EOPNOTSUPP)
  static let readOnly = Errno(EROFS)
  static let again = Errno(EAGAIN)
  static let otherFilesystem = Errno(EXDEV)
  static let noDevice = Errno(ENODEV)
  static let noAttribute = Errno(ENODATA)
}
