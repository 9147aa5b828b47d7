import CFilesystemCalls
import Glibc

/// What a call came to.
package enum Answer: Hashable, Sendable, Codable {
  case done
  case number(Int64)
  case content(Content)
  case status(Status)
  case space(Space)
  case names([Bytes])
  case tree([TreeEntry])
  case ended(status: Int32, output: Bytes)
  case several([Answer])
  /// What a repetition saw, each kind of round once.
  case rounds(Int, distinct: [Answer])
  case failed(Errno)
}

/// An errno, shown by its name.
package struct Errno: Error, Hashable, Sendable, Codable, CustomStringConvertible {
  package let code: Int32

  package init(_ code: Int32) { self.code = code }

  /// A call named what its actor has not: no call of the kernel's on a file ends so.
  package static let noSuchSlot = Errno(EBADFD)

  package init(from decoder: any Decoder) throws { code = try decoder.singleValueContainer().decode(Int32.self) }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(code)
  }

  package var description: String { calls_errno_name(code).map { String(cString: $0) } ?? "errno \(code)" }
}

/// What stat(2) says.
package struct Status: Hashable, Sendable, Codable {
  /// The bits of S_IFMT.
  package var kind: UInt32
  /// Permissions and the set-ID and sticky bits.
  package var mode: UInt32
  package var user: UInt32
  package var group: UInt32
  package var links: UInt64
  package var size: Int64
  /// Nanoseconds since 1970; nil in a comparison where the system has set it.
  package var accessed: Int64?
  package var modified: Int64?
  package var changed: Int64?
  package var inode: UInt64
  package var device: UInt64
  package var blockSize: Int64
  package var blocks: Int64

  package init(
    kind: UInt32, mode: UInt32, user: UInt32, group: UInt32, links: UInt64, size: Int64, accessed: Int64,
    modified: Int64, changed: Int64, inode: UInt64, device: UInt64, blockSize: Int64, blocks: Int64
  ) {
    self.kind = kind
    self.mode = mode
    self.user = user
    self.group = group
    self.links = links
    self.size = size
    self.accessed = accessed
    self.modified = modified
    self.changed = changed
    self.inode = inode
    self.device = device
    self.blockSize = blockSize
    self.blocks = blocks
  }
}

/// What statvfs(3) says.
package struct Space: Hashable, Sendable, Codable {
  package let blockSize: UInt64
  package let blocks: UInt64
  package let free: UInt64
  package let available: UInt64
  package let nameMax: UInt64
  package let isNoDevice: Bool
  package let isNoSetID: Bool

  package init(
    blockSize: UInt64, blocks: UInt64, free: UInt64, available: UInt64, nameMax: UInt64, isNoDevice: Bool,
    isNoSetID: Bool
  ) {
    self.blockSize = blockSize
    self.blocks = blocks
    self.free = free
    self.available = available
    self.nameMax = nameMax
    self.isNoDevice = isNoDevice
    self.isNoSetID = isNoSetID
  }
}

/// One object of a tree.
package struct TreeEntry: Hashable, Sendable, Codable {
  package let path: Bytes
  package var status: Status
  /// A regular file's content.
  package let content: Content?
  /// A symbolic link's target.
  package let target: Bytes?
  /// Why it could not be read.
  package let failure: Errno?

  package init(path: Bytes, status: Status, content: Content?, target: Bytes?, failure: Errno?) {
    self.path = path
    self.status = status
    self.content = content
    self.target = target
    self.failure = failure
  }
}

extension Answer {
  /// What two folders must agree on. Here and nowhere else is said what may differ: numbers of inodes and devices, what a
  /// block is, how large a directory is, and times that the system has set (those near `now`; tests set others).
  package func comparable(now: Int64) -> Answer {
    switch self {
    case .status(let status): .status(status.comparable(now: now))
    case .tree(let entries): .tree(Self.comparable(entries, now: now))
    case .several(let answers): .several(answers.map { $0.comparable(now: now) })
    case .done, .number, .content, .names, .ended, .failed: self
    // How often something was seen is chance, and other programs use the disk's space, too.
    case .rounds(_, let distinct): .rounds(0, distinct: distinct.map { $0.comparable(now: now) })
    case .space: .done
    }
  }

  private static func comparable(_ entries: [TreeEntry], now: Int64) -> [TreeEntry] {
    var places: [UInt64: UInt64] = [:]
    return entries.enumerated().map { place, entry in
      var entry = entry
      let first = places[entry.status.inode] ?? UInt64(place)
      places[entry.status.inode] = first
      entry.status = entry.status.comparable(now: now)
      // Which names are one file: the number is that of its first entry.
      entry.status.inode = first
      // A comparison of trees reads them.
      entry.status.accessed = nil
      return entry
    }
  }
}

extension Status {
  package var isDirectory: Bool { kind == 0o040000 }
  package var isRegular: Bool { kind == 0o100000 }
  package var isLink: Bool { kind == 0o120000 }

  fileprivate func comparable(now: Int64) -> Status {
    let hour: Int64 = 3_600_000_000_000
    func unlessRecent(_ time: Int64?) -> Int64? {
      time.flatMap { abs($0.subtractingReportingOverflow(now).partialValue) < hour ? nil : $0 }
    }
    var status = self
    status.accessed = unlessRecent(accessed)
    status.modified = unlessRecent(modified)
    status.changed = nil
    status.inode = 0
    status.device = 0
    status.blockSize = 0
    status.blocks = 0
    if isDirectory { status.size = 0 }
    return status
  }
}
