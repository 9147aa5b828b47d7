/// What `uploadfs-mount` says with its exit code. Scripts depend on the numbers: they never change.
public enum ExitStatus: Int32, CaseIterable, Sendable {
  case success = 0
  case internalError = 1
  case mountPointUnusable = 10
  case mountPointNotEmpty = 11
  case fuseUnavailable = 12
  case spoolUnusable = 13
  case configurationInvalid = 14
  case destinationUnusable = 15
  case notAMount = 16
  case timedOut = 17
  case filesFailed = 18
  case leftWithPending = 19
  case refused = 20
  case daemonDied = 21
  case usage = 64

  /// What the number means, for `--help` and docs/configuration.md.
  public var meaning: String {
    switch self {
    case .success: "done"
    case .internalError: "internal error"
    case .mountPointUnusable: "the mount point is missing or not a directory"
    case .mountPointNotEmpty: "the mount point is not empty"
    case .fuseUnavailable: "FUSE is not available, or there is no permission to use it"
    case .spoolUnusable: "the spool cannot be used, or another mount uses it"
    case .configurationInvalid: "a setting is wrong"
    case .destinationUnusable: "the destination or its credentials cannot be used"
    case .notAMount: "not an uploadfs mount, or its daemon cannot be reached"
    case .timedOut: "timed out"
    case .filesFailed: "some files failed or are held back; they are kept in the spool and can be retried or published"
    case .leftWithPending: "left at once by a second signal with files pending; all are kept in the spool"
    case .refused: "a file could not be retried, cancelled or published; stderr says why"
    case .daemonDied:
      "the daemon was killed or crashed while `unmount` waited for its end; what was pending is kept in the spool"
    case .usage: "wrong usage"
    }
  }

  /// The table of all codes, one per line, for `--help`.
  public static var table: String {
    allCases.map { status in
      let number = String(status.rawValue)
      return String(repeating: " ", count: 4 - number.count) + number + "  " + status.meaning
    }.joined(separator: "\n")
  }
}
