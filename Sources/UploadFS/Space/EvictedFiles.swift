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

  /// Nothing more has to be removed: it is there, or comes back in a moment.
  func isOnItsWay(spareBytes: UInt64, heldBytes: UInt64) -> Bool {
    spareBytes >= bytes || heldBytes >= bytes - spareBytes
  }

  /// A writer may be given a moment, because something may become free by itself.
  static func mayCome(isDelivering: Bool, heldBytes: UInt64) -> Bool { isDelivering || heldBytes > 0 }
}
