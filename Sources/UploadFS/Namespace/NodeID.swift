/// The number by which the kernel names an inode of the mount. Never used twice for different inodes.
struct NodeID: Hashable, Sendable {
  let rawValue: UInt64

  /// The mount's root; the number is the kernel's (FUSE_ROOT_ID).
  static let root = NodeID(rawValue: 1)

  /// Where the numbers of virtual nodes start. Captures count up from 2 and cannot get here.
  static let firstVirtual = NodeID(rawValue: 1 << 56)

  var isVirtual: Bool { rawValue >= NodeID.firstVirtual.rawValue }
}

/// Which inode of the spool's filesystem something is.
struct SpoolKey: Hashable, Sendable {
  let device: UInt64
  let inode: UInt64
}

/// One component of a path: raw bytes, neither empty nor with a slash or a NUL.
struct EntryName: Hashable, Sendable {
  let bytes: [UInt8]

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  init(_ text: String) {
    bytes = Array(text.utf8)
  }

  /// Copies a C string that the kernel or readdir(3) gave.
  init(cString: UnsafePointer<CChar>) {
    var length = 0
    while cString[length] != 0 { length += 1 }
    bytes = [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
      for index in 0..<length { buffer[index] = UInt8(bitPattern: cString[index]) }
      count = length
    }
  }

  /// With a terminating NUL, for system calls.
  var cString: [CChar] {
    var text: [CChar] = []
    text.reserveCapacity(bytes.count + 1)
    for byte in bytes { text.append(CChar(bitPattern: byte)) }
    text.append(0)
    return text
  }

  var isDot: Bool { bytes == [0x2e] || bytes == [0x2e, 0x2e] }
}

/// A name in a directory.
struct DirectoryEntry: Hashable, Sendable {
  var directory: NodeID
  var name: EntryName
}
