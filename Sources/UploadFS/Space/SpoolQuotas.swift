import CLinux
import Glibc

/// Whether the spool's filesystem may refuse bytes that it has room for.
public enum SpoolQuotas: Hashable, Sendable {
  case none
  /// Of users, groups, projects or subvolumes.
  case enforced
  /// The filesystem, or this system, does not say it.
  case unknown

  /// Of the filesystem of a folder.
  public init(at folder: String) {
    let number = uploadfs_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard number >= 0 else {
      self = .unknown
      return
    }
    self.init(of: FileDescriptor(owning: number, isReadable: true, isWritable: false))
  }

  init(of folder: FileDescriptor) {
    switch uploadfs_enforces_quotas(folder.number) {
    case 0: self = .none
    case 1: self = .enforced
    default: self = .unknown
    }
  }

  /// The kernel may be given files of the spool. With passthrough only the writer hears of a write that a quota refuses. A further
  /// open of such a file is passthrough as well, writers beside readers included: so none passes unless there is no quota.
  public var allowPassthrough: Bool { self == .none }

  /// Why nothing passes the daemon; nil where that is allowed.
  public var refusal: String? {
    switch self {
    case .none: nil
    case .enforced: "the spool's filesystem has quotas"
    case .unknown: "the spool's filesystem does not say whether it has quotas"
    }
  }
}
