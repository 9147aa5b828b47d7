import CFuse
import CLinux
import Glibc

/// Lays directory entries out in the kernel's buffer.
struct DirectoryReply {
  private let request: fuse_req_t
  private let buffer: UnsafeMutableRawBufferPointer
  private(set) var used = 0
  /// Nodes that this reply counts for the kernel, to be taken back if the kernel never gets it.
  private(set) var counted: [NodeID] = []

  init(_ request: fuse_req_t, _ buffer: UnsafeMutableRawBufferPointer) {
    self.request = request
    self.buffer = buffer
  }

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: buffer.prefix(used)) }

  private var rest: UnsafeMutablePointer<CChar>? {
    buffer.baseAddress.map { ($0 + used).assumingMemoryBound(to: CChar.self) }
  }

  /// A name with its type. False when it does not fit any more.
  mutating func add(_ name: UnsafePointer<CChar>, inode: UInt64, mode: mode_t, cookie: Int64) -> Bool {
    var status = stat()
    status.st_ino = ino_t(inode)
    status.st_mode = mode
    let room = buffer.count - used
    let needed = fuse_add_direntry(request, rest, room, name, &status, off_t(cookie))
    guard needed <= room else { return false }
    used += needed
    return true
  }

  /// The names from an index on that fit with everything that a lookup of them would say.
  func entriesWithRoom(of listing: borrowing DirectoryListing, from first: Int) -> [EntryName] {
    var names: [EntryName] = []
    var rest = buffer.count - used
    for index in stride(from: first, to: listing.count, by: 1) {
      let found = listing.withName(at: index) { name in
        var parameters = fuse_entry_param()
        return (name: EntryName(cString: name), bytes: fuse_add_direntry_plus(request, nil, 0, name, &parameters, 0))
      }
      guard let found, found.bytes <= rest else { break }
      rest -= found.bytes
      names.append(found.name)
    }
    return names
  }

  /// A name with everything that a lookup of it would say. False when it does not fit any more.
  ///
  /// `find` counts the node for the kernel, which is right for every entry but `.` and `..`.
  mutating func addPlus(
    _ name: UnsafePointer<CChar>, inode: UInt64, mode: mode_t, cookie: Int64, find: () -> FoundEntry?
  ) -> Bool {
    var parameters = fuse_entry_param()
    let room = buffer.count - used
    guard fuse_add_direntry_plus(request, nil, 0, name, &parameters, off_t(cookie)) <= room else { return false }
    let found = find()
    if let found {
      parameters = Reply.parameters(found, isVirtualPlace: found.node.isVirtual)
      counted.append(found.node)
    } else {
      // Node 0: only a name and a type, which the kernel looks up when a program asks for more.
      parameters.attr.st_ino = ino_t(inode)
      parameters.attr.st_mode = mode
    }
    used += fuse_add_direntry_plus(request, rest, room, name, &parameters, off_t(cookie))
    return true
  }
}

extension Call {
  /// Answers readdir and readdirplus.
  consuming func sendListing(_ number: UInt64, _ size: Int, _ cookie: Int64, isPlus: Bool) {
    let filesystem = filesystem
    let buffers = mount.readBuffers
    let buffer = buffers.take(atLeast: size)
    defer { buffers.give(back: buffer) }
    var listed = DirectoryReply(rawRequest, UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(size)))
    answer { (filesystem) throws(SystemError) in
      let handle = try filesystem.directoryHandle(number)
      try filesystem.withListing(of: handle, from: cookie) { listing, first in
        // The root can be listed whatever becomes of the disk.
        var found =
          isPlus && handle.node == .root ? filesystem.lookUpSoon(listed.entriesWithRoom(of: listing, from: first)) : [:]
        for index in stride(from: first, to: listing.count, by: 1) {
          let (inode, mode) = listing.facts(at: index)
          let hasRoom = listing.withName(at: index) { name in
            guard isPlus else { return listed.add(name, inode: inode, mode: mode, cookie: Int64(index) + 1) }
            return listed.addPlus(name, inode: inode, mode: mode, cookie: Int64(index) + 1) {
              let entry = DirectoryEntry(directory: handle.node, name: EntryName(cString: name))
              guard !entry.name.isDot else { return nil }
              if handle.node == .root, !filesystem.isReserved(entry) { return found.removeValue(forKey: entry.name) }
              return (try? filesystem.lookup(entry)) ?? nil
            }
          }
          guard hasRoom == true else { break }
        }
        // The kernel is not told of these.
        for entry in found.values { filesystem.forget(entry.node, count: 1) }
      }
    } _: { reply, _ in
      guard !reply.bytes(listed.bytes) else { return }
      for node in listed.counted { filesystem.forget(node, count: 1) }
    }
  }
}
