import CLinux
import Glibc
import Synchronization

/// Listing directories.
extension Filesystem {
  func openDirectory(_ node: NodeID) throws(SystemError) -> UInt64 {
    let handle: DirectoryHandle
    if node.isVirtual {
      guard try virtualAttributes(of: node, handle: nil).st_mode & S_IFMT == S_IFDIR else { throw .notDirectory }
      handle = DirectoryHandle(node: node, descriptor: nil, in: listingCopies)
    } else if node == .root {
      // Opened already: its own entries need the disk, and those of the virtual files do not.
      handle = DirectoryHandle(node: node, descriptor: root, in: listingCopies)
    } else {
      let number = try namespaceLock.shared { () throws(SystemError) -> Int32 in
        if let pin = nodes.withLock({ $0.table[node]?.pin }) {
          return try check(uploadfs_openat(pin.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0))
        }
        do throws(SystemError) {
          return try location(of: node).open(O_RDONLY | O_DIRECTORY)
        } catch {
          throw error == .notFound ? .stale : error
        }
      }
      handle = DirectoryHandle(
        node: node, descriptor: FileDescriptor(owning: number, isReadable: true, isWritable: false),
        in: listingCopies)
    }
    return handles.withLock { $0.insert(.directory(handle)) }
  }

  func directoryHandle(_ number: UInt64) throws(SystemError) -> DirectoryHandle {
    guard case .directory(let handle) = try handle(number) else { throw .badDescriptor }
    return handle
  }

  /// Calls `body` with the listing that a handle's cookies count in: the cookie of an entry is its index + 1. Cookie 0
  /// starts over with what is there now.
  func withListing<Result>(
    of handle: DirectoryHandle, from cookie: Int64, _ body: (borrowing DirectoryListing, _ index: Int) -> Result
  ) throws(SystemError) -> Result {
    let index = Int(clamping: max(cookie, 0))
    let known = handle.shown.withLock { $0 }
    if cookie > 0, let known, let listing = listingCopies.content(known.copy) { return body(listing, index) }
    let fresh = try list(handle)
    let digest = fresh.digest
    // It was let go of, and its positions are those of other names by now.
    if cookie > 0, let known, known.digest != digest { throw .stale }
    let shown = DirectoryHandle.Shown(copy: listingCopies.add(fresh, of: handle.node), digest: digest)
    let before = handle.shown.withLock { before in
      defer { before = shown }
      return before
    }
    if let before { listingCopies.remove(before.copy) }
    return body(fresh, index)
  }

  private func list(_ handle: DirectoryHandle) throws(SystemError) -> DirectoryListing {
    guard let descriptor = handle.descriptor else { return try listVirtual(handle.node) }
    if handle.node == .root { return listRoot(descriptor) }
    var listing = DirectoryListing()
    let device = try descriptor.status().key.device
    try Self.forEachEntry(of: descriptor) { name, inode, type in
      let number = spool.shownInodes.number(of: SpoolKey(device: device, inode: UInt64(inode)))
      listing.append(name: name, inode: number, mode: mode_t(type) << 12)
    }
    return listing
  }

  /// Very many entries of a slow disk take that long.
  private static let listingMilliseconds = 5000

  /// Where the spool's disk cannot say what lies there, the captures that are known stand in, of which there is a status.
  private func listRoot(_ descriptor: FileDescriptor) -> DirectoryListing {
    let root = nodes.withLock { $0.table[.root] }
    let own = root?.key.inode ?? 0
    let reserved = virtual.reservedNames
    let read = inquiry.ask(within: Self.listingMilliseconds) { () -> DirectoryListing? in
      var listing = DirectoryListing()
      do throws(SystemError) {
        try Self.forEachEntry(of: descriptor) { name, inode, type in
          if reserved.contains(name) { return }
          listing.append(name: name, inode: name.isDot ? own : UInt64(inode), mode: mode_t(type) << 12)
        }
        return listing
      } catch {
        return nil
      }
    }
    var listing = DirectoryListing()
    if let known = read ?? nil {
      listing = known
    } else {
      for name in [".", ".."] { listing.append(name: EntryName(name), inode: own, mode: S_IFDIR) }
      for (name, node) in root?.children ?? [:] {
        guard let known = nodes.withLock({ $0.table[node] }) else { continue }
        listing.append(name: name, inode: spool.shownInodes.number(of: known.key), mode: known.kind.mode)
      }
    }
    appendVirtualRoots(to: &listing)
    return listing
  }

  /// What stands in the root under these names, each counted for the kernel; none of them where the disk does not say it soon.
  func lookUpSoon(_ names: [EntryName]) -> [EntryName: FoundEntry] {
    let entries = names.map { DirectoryEntry(directory: .root, name: $0) }.filter { !$0.name.isDot && !isReserved($0) }
    guard !entries.isEmpty else { return [:] }
    let wanted = WantedEntries()
    _ = inquiry.ask { [weak self] in
      for entry in entries where wanted.areWanted {
        guard let self else { return }
        let found: FoundEntry?
        do throws(SystemError) {
          found = try lookup(entry)
        } catch {
          // It is named all the same, and looked up again when its name is used.
          continue
        }
        guard let found else { continue }
        if !wanted.add(found, as: entry.name) { forget(found.node, count: 1) }
      }
    }
    return wanted.take()
  }

  /// Reads a directory from its start, whatever other readers of the descriptor do.
  static func forEachEntry(
    of directory: FileDescriptor, _ body: (_ name: EntryName, _ inode: ino_t, _ type: UInt8) -> Void
  ) throws(SystemError) {
    let number = try check(uploadfs_openat(directory.number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0))
    guard let stream = fdopendir(number) else {
      let failure = SystemError.last
      close(number)
      throw failure
    }
    defer { closedir(stream) }
    while let entry = uploadfs_next_entry(stream) {
      body(EntryName(cString: uploadfs_entry_name(entry)), entry.pointee.d_ino, entry.pointee.d_type)
    }
    guard errno == 0 else { throw .last }
  }
}

/// What the disk has said by the time at which it is wanted.
private final class WantedEntries: Sendable {
  private let found = Mutex<[EntryName: FoundEntry]?>([:])

  var areWanted: Bool { found.withLock { $0 != nil } }

  /// False where it is too late.
  func add(_ entry: FoundEntry, as name: EntryName) -> Bool {
    found.withLock { found in
      found?[name] = entry
      return found != nil
    }
  }

  func take() -> [EntryName: FoundEntry] { found.withLock { $0.take() } ?? [:] }
}

extension NodeKind {
  /// The type as directories state it; 0 where it is to be asked for.
  fileprivate var mode: mode_t {
    switch self {
    case .directory: S_IFDIR
    case .regular: S_IFREG
    case .other: 0
    }
  }
}
