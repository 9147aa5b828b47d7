/// Why what a file holds is not what its writers meant it to hold (docs/semantics.md, S39 to S41).
public enum Interruption: Hashable, Sendable {
  /// A write beyond the largest size that is taken was refused.
  case writeRefused(limitBytes: UInt64)
  /// A write failed with this errno, and nothing was written to its place afterwards.
  case writeFailed(errno: Int32)
  /// A change was refused because it needed bytes that are only at the server.
  case changeRefused
  /// A process that had the file open for writing was ended by this signal.
  case writerKilled(signal: Int32)
  /// The mount ended while the file was being written.
  case mountDied
  /// The machine stopped after the last close, or the spool's disk went, before the disk was known to have everything.
  case notOnDisk
  /// Another program changed or replaced the file in the spool, past the mount.
  case changedInSpool
  /// It was found where a content was delivered that it is not, and not known to be a later one: it may come from a backup.
  case olderThanDelivered
  /// The spool was copied without what it said of the file, or has lost it, and nothing proves that the file was finished.
  case unproven
  /// The spool could not say with which size or mark the file lies there; it failed with this errno, and is asked again.
  case spoolUnreadable(errno: Int32)
  /// The spool's disk did not take what was written, and failed with this errno; it is written again.
  case spoolFailing(errno: Int32)
  /// The spool's disk did not take what was written, and failed with this errno; what was left of these bytes in memory was gone
  /// by then.
  indirect case lostInWriteBack(errno: Int32, Range<UInt64>)

  /// The word for programs, in status files and in the catalog.
  public var code: String {
    switch self {
    case .writeRefused: "write-refused"
    case .writeFailed: "write-failed"
    case .changeRefused: "change-refused"
    case .writerKilled: "writer-killed"
    case .mountDied: "mount-died"
    case .notOnDisk, .lostInWriteBack: "not-on-disk"
    case .changedInSpool: "changed-in-spool"
    case .olderThanDelivered: "older-than-delivered"
    case .unproven: "unproven"
    case .spoolUnreadable: "spool-unreadable"
    case .spoolFailing: "spool-failing"
    }
  }

  /// It says nothing of the file, only that nothing is known: it ends by itself, and no user can accept it.
  public var isOfSpool: Bool {
    switch self {
    case .spoolUnreadable, .spoolFailing: true
    case .writeRefused, .writeFailed, .changeRefused, .writerKilled, .mountDied, .notOnDisk, .changedInSpool,
      .olderThanDelivered, .lostInWriteBack, .unproven:
      false
    }
  }

  /// The bytes of which it is known that the disk has lost them; nil where that is nothing, or not known.
  package var lostBytes: Range<UInt64>? {
    if case .lostInWriteBack(_, let bytes) = self { bytes } else { nil }
  }

  /// The word and its number, for a mark on the file.
  public var text: String {
    switch self {
    case .writeRefused(let limitBytes): "\(code) \(limitBytes)"
    case .writeFailed(let errno): "\(code) \(errno)"
    case .writerKilled(let signal): "\(code) \(signal)"
    case .spoolUnreadable(let errno), .spoolFailing(let errno): "\(code) \(errno)"
    case .lostInWriteBack(let errno, let bytes): "\(code) \(errno) \(bytes.lowerBound) \(bytes.upperBound)"
    case .changeRefused, .mountDied, .notOnDisk, .changedInSpool, .olderThanDelivered, .unproven: code
    }
  }

  /// What ``text`` says; a number that is missing is 0. Nil for anything else.
  public init?(_ text: String) {
    let words = text.split(separator: " ")
    let number = words.count > 1 ? UInt64(words[1]) ?? 0 : 0
    switch words.first {
    case "write-refused": self = .writeRefused(limitBytes: number)
    case "write-failed": self = .writeFailed(errno: Int32(clamping: number))
    case "change-refused": self = .changeRefused
    case "writer-killed": self = .writerKilled(signal: Int32(clamping: number))
    case "mount-died": self = .mountDied
    case "changed-in-spool": self = .changedInSpool
    case "older-than-delivered": self = .olderThanDelivered
    case "unproven": self = .unproven
    case "not-on-disk":
      guard words.count == 4, let first = UInt64(words[2]), let end = UInt64(words[3]), first <= end else {
        self = .notOnDisk
        return
      }
      self = .lostInWriteBack(errno: Int32(clamping: number), first..<end)
    case "spool-unreadable": self = .spoolUnreadable(errno: Int32(clamping: number))
    case "spool-failing": self = .spoolFailing(errno: Int32(clamping: number))
    default: return nil
    }
  }
}
