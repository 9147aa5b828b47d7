import CLinux
import FileModel
import Glibc
import Synchronization

/// The generated files: `status/…` and `.uploadfs/…`.
extension Filesystem {
  func lookupVirtual(_ entry: DirectoryEntry) throws(SystemError) -> FoundEntry? {
    let path = try virtualPath(of: entry.directory).appending(entry.name.bytes)
    guard let node = virtual.tree.node(at: path) else { return nil }
    let id = virtualNode(at: path, node, counting: true)
    return FoundEntry(node: id, status: virtualStatus(of: id, path, node))
  }

  func virtualAttributes(of node: NodeID, handle number: UInt64?) throws(SystemError) -> stat {
    guard let known = virtual.nodes.withLock({ $0[node] }), let shown = virtual.tree.node(at: known.path),
      VirtualNodeTable.Shape(shown) == known.shape
    else { throw .stale }
    _ = virtualNode(at: known.path, shown, counting: false)
    var status = virtualStatus(of: node, known.path, shown)
    if let number, case .virtual(let handle)? = handles.withLock({ $0[number] }) {
      status.st_size = off_t(handle.snapshot.withLock { $0.byteCount })
    }
    return status
  }

  func openVirtual(_ node: NodeID, flags: Int32) throws(SystemError) -> Opened {
    guard let path = virtual.nodes.withLock({ $0[node]?.path }) else { throw .stale }
    if flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0 { try requireWritable(path) }
    guard let snapshot = takeSnapshot(of: path) else {
      throw .stale
    }
    let handle = VirtualHandle(path: path, snapshot: snapshot, in: virtual.copies)
    return Opened(
      handle: handles.withLock { $0.insert(.virtual(handle)) }, isDirect: true, keepsCache: false, skipsFlush: true)
  }

  /// Copies from the handle's snapshot. Reading at the start again, after a change, takes a new one; and has to be done where too much
  /// was kept for all who have such files open.
  func readVirtual(
    _ handle: VirtualHandle, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer
  ) throws(SystemError) -> Int {
    if offset == 0, isReadable(handle) || virtual.copies.content(handle.snapshot.withLock { $0.copy }) == nil,
      let fresh = takeSnapshot(of: handle.path)
    {
      let previous = handle.snapshot.withLock { snapshot in
        defer { snapshot = fresh }
        return snapshot.copy
      }
      virtual.copies.remove(previous)
    }
    let snapshot = handle.snapshot.withLock { $0 }
    guard offset >= 0, offset < snapshot.byteCount else { return 0 }
    guard let bytes = virtual.copies.content(snapshot.copy) else { throw .stale }
    let part = bytes[Int(offset)...].prefix(buffer.count)
    buffer.copyBytes(from: part)
    return part.count
  }

  /// For poll(2): the file may differ from what was last read through this handle.
  func isReadable(_ handle: VirtualHandle) -> Bool {
    virtual.tree.version(of: handle.path) != handle.snapshot.withLock { $0.version }
  }

  func readVirtualLink(_ node: NodeID) throws(SystemError) -> [CChar] {
    guard let path = virtual.nodes.withLock({ $0[node]?.path }) else { throw .invalid }
    // A short form that has become ambiguous: the kernel still had it, and looks the name up anew.
    guard case .link(let target)? = virtual.tree.node(at: path) else { throw .stale }
    return EntryName(bytes: target).cString
  }

  func listVirtual(_ node: NodeID) throws(SystemError) -> DirectoryListing {
    let path = try virtualPath(of: node)
    var listing = DirectoryListing()
    let own = VirtualNodeTable.inodeNumber(of: path)
    listing.append(name: EntryName("."), inode: own, mode: S_IFDIR)
    listing.append(name: EntryName(".."), inode: own, mode: S_IFDIR)
    for entry in listed(virtual.tree.entries(of: path), in: path) { append(entry, in: path, to: &listing) }
    return listing
  }

  func appendVirtualRoots(to listing: inout DirectoryListing) {
    for name in virtual.tree.topLevelNames {
      guard let node = virtual.tree.node(at: RelativePath(bytes: name)) else { continue }
      append(VirtualEntry(name: name, node: node), in: .root, to: &listing)
    }
  }

  private func append(_ entry: VirtualEntry, in directory: RelativePath, to listing: inout DirectoryListing) {
    let inode = VirtualNodeTable.inodeNumber(of: directory.appending(entry.name))
    listing.append(name: EntryName(bytes: entry.name), inode: inode, mode: Self.mode(of: entry.node) & S_IFMT)
  }

  private func virtualPath(of directory: NodeID) throws(SystemError) -> RelativePath {
    if directory == .root { return .root }
    guard let path = virtual.nodes.withLock({ $0[directory]?.path }) else { throw .stale }
    return path
  }

  private func virtualNode(at path: RelativePath, _ node: VirtualNode, counting: Bool) -> NodeID {
    let version = virtual.tree.version(of: path)
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return virtual.nodes.withLock { table in
      let id = table.node(at: path, shape: VirtualNodeTable.Shape(node), version: version, now: now)
      if counting { table.countLookup(id) }
      return id
    }
  }

  /// The version is asked first: a change in between is then read twice rather than missed.
  private func takeSnapshot(of path: RelativePath) -> VirtualHandle.Snapshot? {
    let version = virtual.tree.version(of: path)
    return virtual.tree.contents(of: path).map { bytes in
      VirtualHandle.Snapshot(
        copy: virtual.copies.add(bytes, of: path.bytes), byteCount: bytes.count, version: version)
    }
  }

  /// Who may see something of the virtual tree: who may reach what it is about. The kernel checks it, as for captures. Nil for what
  /// is about nothing that could be hidden.
  private func access(to path: RelativePath) -> FileOwnership? {
    guard let subject = virtual.tree.subject(of: path) else { return nil }
    let daemonOnly = FileOwnership(user: geteuid(), group: getegid(), mode: 0o500)
    switch subject {
    case .file(let id, let last):
      let answer = ask(.file(id)) { $0.status(ofFile: id) }
      if case .some(let access?) = answer { return access }
      guard let last else { return daemonOnly }
      let owned = FileOwnership(user: last.user, group: last.group, mode: last.mode | 0o400)
      guard case .folder(let folder)? = virtual.tree.subject(of: path.parent) else { return owned }
      return virtual.folderAccess.withLock { $0.restrict(owned, in: folder) }
    case .everyFile: return daemonOnly
    case .folder(.root): return FileOwnership(rootAttributes())
    case .folder(let folder):
      let answer = ask(.folder(folder)) { $0.status(ofFolder: folder) }
      return virtual.folderAccess.withLock { known in
        switch answer {
        // The disk says nothing: what it has said.
        case nil: return known.last(folder) ?? daemonOnly
        case .some(let access?):
          known.found(folder, access)
          return access
        case .some(nil):
          // Of a folder that is gone names can be asked for by those who could enter it, and not be listed by them.
          let last = known.last(folder) ?? daemonOnly
          let access = FileOwnership(user: last.user, group: last.group, mode: 0o500 | last.mode & 0o011)
          return known.restrict(access, in: folder)
        }
      }
    }
  }

  /// What the disk says, or has said a moment ago: the inner nil is its word that there is nothing, the outer one that it says none. It
  /// may hang, with the locks held that are needed here.
  private func ask(
    _ subject: RecentAccess.Subject, _ look: @escaping @Sendable (Filesystem) -> stat?
  ) -> FileOwnership?? {
    let (known, era) = virtual.recentAccess.withLock {
      ($0.access(to: subject, atMilliseconds: Self.monotonicMilliseconds()), $0.era)
    }
    if let known { return known }
    let answer = inquiry.ask { [weak self] in self.flatMap(look).map { FileOwnership($0) } }
    if case .some(let access?) = answer {
      virtual.recentAccess.withLock {
        $0.said(access, of: subject, in: era, atMilliseconds: Self.monotonicMilliseconds())
      }
    }
    return answer
  }

  private static func monotonicMilliseconds() -> Int {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1000 + now.tv_nsec / 1_000_000
  }

  /// A folder has gone from its path. The caller holds none of the locks.
  func noteGone(_ folder: RelativePath, _ status: stat) {
    guard status.kind == .directory else { return }
    virtual.folderAccess.withLock { access in
      access.left(folder, FileOwnership(status)) { virtual.tree.hasDocuments(below: $0) }
    }
  }

  /// A folder has come to a path. The caller holds none of the locks.
  func noteCome(_ folder: RelativePath) {
    guard virtual.tree.hasDocuments(below: folder) else { return }
    virtual.folderAccess.withLock {
      $0.came(folder, unknown: FileOwnership(user: geteuid(), group: getegid(), mode: 0o500))
    }
  }

  /// What can be listed in a folder: where another one had its name before, not what was in that.
  private func listed(_ entries: [VirtualEntry], in path: RelativePath) -> [VirtualEntry] {
    guard case .folder(let folder)? = virtual.tree.subject(of: path), folder != .root,
      virtual.folderAccess.withLock({ $0.hidesNames(in: folder) })
    else { return entries }
    let isThere = inquiry.ask { [weak self] in self?.status(ofFolder: folder) != nil }
    // A folder that is gone as well is listed by its owner alone.
    guard isThere != false else { return entries }
    return entries.filter { entry in
      switch virtual.tree.subject(of: path.appending(entry.name)) {
      case .file(let id, _): file(of: id).map { !$0.state.withLock { $0.activity.isGone } } ?? false
      case .folder(let folder): inquiry.ask { [weak self] in self?.status(ofFolder: folder) != nil } ?? false
      case .everyFile, nil: true
      }
    }
  }

  /// Nil where it is gone, or cannot be examined.
  private func status(ofFile id: FileID) -> stat? {
    guard let file = file(of: id) else { return nil }
    return namespaceLock.shared {
      do throws(SystemError) {
        return try statusInSpool(of: file.node)
      } catch {
        return nil
      }
    }
  }

  /// Nil where there is none, or none that can be examined.
  private func status(ofFolder folder: RelativePath) -> stat? {
    let names = folder.components.map { EntryName(bytes: Array($0)) }
    return namespaceLock.shared {
      do throws(SystemError) {
        let status = try SpoolLocation(root: root.number, components: names).status()
        return status.kind == .directory ? status : nil
      } catch {
        return nil
      }
    }
  }

  private static func mode(of node: VirtualNode) -> mode_t {
    switch node {
    case .directory: S_IFDIR | 0o555
    case .file: S_IFREG | 0o444
    case .link: S_IFLNK | 0o777
    }
  }

  private func virtualStatus(of id: NodeID, _ path: RelativePath, _ node: VirtualNode) -> stat {
    var status = stat()
    status.st_ino = UInt(VirtualNodeTable.inodeNumber(of: path))
    status.st_mode = Self.mode(of: node) | (virtual.tree.isWritable(path) ? 0o222 : 0)
    status.st_nlink = node == .directory ? 2 : 1
    let access = access(to: path)
    status.st_uid = access?.user ?? geteuid()
    status.st_gid = access?.group ?? getegid()
    if let access { status.st_mode &= S_IFMT | access.mode }
    status.st_blksize = 4096
    switch node {
    case .directory: break
    case .file(let sizeBytes): status.st_size = off_t(sizeBytes)
    case .link(let target): status.st_size = off_t(target.count)
    }
    status.st_blocks = (status.st_size + 511) / 512
    let changedAt = virtual.nodes.withLock { $0[id]?.changedAt } ?? timespec()
    status.st_atim = changedAt
    status.st_mtim = changedAt
    status.st_ctim = changedAt
    return status
  }
}

extension FileOwnership {
  /// Its owner can always change the mode, and so may always read it, and enter what is a folder.
  fileprivate init(_ status: stat) {
    let always: mode_t = status.kind == .directory ? 0o500 : 0o400
    self.init(user: status.st_uid, group: status.st_gid, mode: status.st_mode & 0o777 | always)
  }
}
