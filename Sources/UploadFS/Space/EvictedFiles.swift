import Synchronization

/// Removed files whose place the disk has not got back, because the daemon itself has them open: it lets go of them in a moment.
final class EvictedFiles: Sendable {
  private struct Held {
    var file: CapturedFile
    var bytes: UInt64
  }

  private let held = Mutex<[Held]>([])

  /// A file has lost its last name.
  func add(_ file: CapturedFile, bytes: UInt64) {
    guard file.openings.load(ordering: .acquiring) > 0 else { return }
    held.withLock { $0.append(Held(file: file, bytes: bytes)) }
  }

  /// What is still to come back.
  var heldBytes: UInt64 {
    held.withLock { held in
      held.removeAll { $0.file.openings.load(ordering: .acquiring) == 0 }
      return held.reduce(0) { sum, file in
        let (larger, isOver) = sum.addingReportingOverflow(file.bytes)
        return isOver ? .max : larger
      }
    }
  }
}

/// What is to be done for a write for which the spool has no room: a pure decision.
struct NeededRoom: Hashable, Sendable {
  /// So much is to be written.
  var bytes: UInt64

  /// What has to come back for it: what the reserve lacks comes first.
  func missingBytes(_ headroom: Headroom) -> UInt64 {
    if headroom.spareBytes >= bytes { return 0 }
    let (missing, isOver) = (bytes - headroom.spareBytes).addingReportingOverflow(headroom.lackingBytes)
    return isOver ? .max : missing
  }

  /// Nothing more has to be removed: it is there, or comes back in a moment.
  func isOnItsWay(_ headroom: Headroom, heldBytes: UInt64) -> Bool { heldBytes >= missingBytes(headroom) }

  /// A writer may be given a moment, because something may become free by itself.
  static func mayCome(isDelivering: Bool, heldBytes: UInt64) -> Bool { isDelivering || heldBytes > 0 }
}
