import CFuse
import CLinux
import FileModel
import Glibc

// The functions that libfuse calls, on its own threads. Each takes the request apart, calls one method of the filesystem
// and converts the answer. They are global because C must not be handed anything that belongs to an actor.

/// What libfuse is to call. What is missing here is left to the kernel on purpose:
/// - access: the kernel checks permissions itself (default_permissions).
/// - getlk, setlk, flock: the kernel keeps the locks, which is right for a mount of one machine.
/// - extended attributes: libfuse answers ENOSYS, and the kernel never asks again. Answering anything else would bring one
///   getxattr("security.capability") before each write(2).
/// - copy_file_range: ENOSYS makes the kernel read and write, so that every change arrives as a write.
/// - write_buf: it would turn splicing on; a plain write is as fast (see docs/performance.md) and simpler.
func makeFuseOperations() -> fuse_lowlevel_ops {
  var operations = fuse_lowlevel_ops()
  operations.`init` = fuseInit
  operations.lookup = fuseLookup
  operations.forget = fuseForget
  operations.forget_multi = fuseForgetMulti
  operations.getattr = fuseGetAttributes
  operations.setattr = fuseSetAttributes
  operations.readlink = fuseReadLink
  operations.mknod = fuseMakeNode
  operations.mkdir = fuseMakeDirectory
  operations.unlink = fuseUnlink
  operations.rmdir = fuseRemoveDirectory
  operations.symlink = fuseMakeSymbolicLink
  operations.rename = fuseRename
  operations.link = fuseMakeLink
  operations.open = fuseOpen
  operations.create = fuseCreate
  operations.read = fuseRead
  operations.write = fuseWrite
  operations.flush = fuseFlush
  operations.release = fuseRelease
  operations.fsync = fuseSynchronize
  operations.fsyncdir = fuseSynchronize
  operations.opendir = fuseOpenDirectory
  operations.readdir = fuseReadDirectory
  operations.readdirplus = fuseReadDirectoryPlus
  operations.releasedir = fuseReleaseDirectory
  operations.statfs = fuseStatistics
  operations.fallocate = fuseAllocate
  operations.lseek = fuseSeek
  operations.poll = fusePoll
  uploadfs_answer_tmpfile(&operations, fuseCreateTmpfile)
  return operations
}

// MARK: Session

private func fuseInit(_ userdata: UnsafeMutableRawPointer?, _ connection: UnsafeMutablePointer<fuse_conn_info>?) {
  guard let connection else { return }
  connection.pointee.max_write = 1 << 20
  connection.pointee.time_gran = 1
  let wanted = [
    UPLOADFS_CAPABILITY_ASYNC_READ, UPLOADFS_CAPABILITY_ATOMIC_O_TRUNC, UPLOADFS_CAPABILITY_READDIRPLUS,
    UPLOADFS_CAPABILITY_READDIRPLUS_AUTO,
    UPLOADFS_CAPABILITY_PARALLEL_DIROPS, UPLOADFS_CAPABILITY_NO_EXPORT_SUPPORT,
    UPLOADFS_CAPABILITY_DIRECT_IO_ALLOW_MMAP,
  ]
  // AUTO_INVAL_DATA would drop a file's pages whenever its time is new, between a write's copy into its page and the write
  // itself as well: a page that is read again just then lacks the bytes and stays (seen on 6.18: a program that follows a
  // file reads zeros). Every change comes through the kernel; of the few that pass its pages by it is told.
  // ASYNC_DIO would let an asynchronous O_DIRECT write end without the kernel dropping the pages that a reader has brought in
  // meanwhile (seen on 6.18); a synchronous one drops them.
  let unwanted = [
    UPLOADFS_CAPABILITY_AUTO_INVAL_DATA, UPLOADFS_CAPABILITY_ASYNC_DIO,
    UPLOADFS_CAPABILITY_POSIX_LOCKS, UPLOADFS_CAPABILITY_FLOCK_LOCKS, UPLOADFS_CAPABILITY_EXPORT_SUPPORT,
    UPLOADFS_CAPABILITY_DONT_MASK, UPLOADFS_CAPABILITY_SPLICE_READ, UPLOADFS_CAPABILITY_SPLICE_WRITE,
    UPLOADFS_CAPABILITY_SPLICE_MOVE, UPLOADFS_CAPABILITY_IOCTL_DIR, UPLOADFS_CAPABILITY_WRITEBACK_CACHE,
    UPLOADFS_CAPABILITY_POSIX_ACL, UPLOADFS_CAPABILITY_HANDLE_KILLPRIV, UPLOADFS_CAPABILITY_HANDLE_KILLPRIV_V2,
    UPLOADFS_CAPABILITY_CACHE_SYMLINKS, UPLOADFS_CAPABILITY_EXPLICIT_INVAL_DATA, UPLOADFS_CAPABILITY_OVER_IO_URING,
  ]
  for capability in wanted { _ = uploadfs_want(connection, capability, true) }
  for capability in unwanted { _ = uploadfs_want(connection, capability, false) }
  // Libfuse's userdata is the mount, as for every request.
  guard let userdata else { return }
  let mount = Unmanaged<FuseMount>.fromOpaque(userdata).takeUnretainedValue()
  guard mount.filesystem.configuration.passthrough != .off else { return }
  // The kernel can refuse an open after the daemon's answer where that says passthrough. It then empties the file itself,
  // once it is open, so that an open that fails has changed nothing.
  _ = uploadfs_want(connection, UPLOADFS_CAPABILITY_ATOMIC_O_TRUNC, false)
  if uploadfs_has_passthrough(), uploadfs_want(connection, UPLOADFS_CAPABILITY_PASSTHROUGH, true) {
    mount.enablePassthrough()
  }
}

// MARK: Names

private func fuseLookup(_ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?) {
  guard let call = Call(request) else { return }
  let entry = DirectoryEntry(parent, name)
  let isVirtualPlace = entry.directory.isVirtual || call.filesystem.isReserved(entry)
  call.answerEntry(isVirtualPlace: isVirtualPlace) {
    (filesystem) throws(SystemError) in try filesystem.lookup(entry)
  }
}

private func fuseForget(_ request: fuse_req_t?, _ node: fuse_ino_t, _ count: UInt64) {
  guard let call = Call(request) else { return }
  call.filesystem.forget(NodeID(node), count: count)
  call.nothing()
}

private func fuseForgetMulti(_ request: fuse_req_t?, _ count: Int, _ forgets: UnsafeMutablePointer<fuse_forget_data>?) {
  guard let call = Call(request) else { return }
  for forget in UnsafeBufferPointer(start: forgets, count: forgets == nil ? 0 : count) {
    call.filesystem.forget(NodeID(rawValue: forget.ino), count: forget.nlookup)
  }
  call.nothing()
}

private func fuseMakeNode(
  _ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?, _ mode: mode_t, _ device: dev_t
) {
  guard let call = Call(request) else { return }
  let caller = call.caller
  call.answerEntry { (filesystem) throws(SystemError) in
    try filesystem.makeNode(DirectoryEntry(parent, name), mode: mode, caller: caller)
  }
}

private func fuseMakeDirectory(
  _ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?, _ mode: mode_t
) {
  guard let call = Call(request) else { return }
  let caller = call.caller
  call.answerEntry { (filesystem) throws(SystemError) in
    try filesystem.makeDirectory(DirectoryEntry(parent, name), mode: mode, caller: caller)
  }
}

private func fuseMakeSymbolicLink(
  _ request: fuse_req_t?, _ target: UnsafePointer<CChar>?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?
) {
  guard let call = Call(request), let target else { return }
  let caller = call.caller
  call.answerEntry { (filesystem) throws(SystemError) in
    try filesystem.makeSymbolicLink(DirectoryEntry(parent, name), target: target, caller: caller)
  }
}

private func fuseMakeLink(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?
) {
  guard let call = Call(request) else { return }
  call.answerEntry { (filesystem) throws(SystemError) in
    try filesystem.makeLink(to: NodeID(node), at: DirectoryEntry(parent, name))
  }
}

private func fuseUnlink(_ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?) {
  guard let call = Call(request) else { return }
  call.answerDone { (filesystem) throws(SystemError) in try filesystem.unlink(DirectoryEntry(parent, name)) }
}

private func fuseRemoveDirectory(_ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?) {
  guard let call = Call(request) else { return }
  call.answerDone { (filesystem) throws(SystemError) in try filesystem.removeDirectory(DirectoryEntry(parent, name)) }
}

private func fuseRename(
  _ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?, _ newParent: fuse_ino_t,
  _ newName: UnsafePointer<CChar>?, _ flags: UInt32
) {
  guard let call = Call(request) else { return }
  call.answerDone { (filesystem) throws(SystemError) in
    try filesystem.rename(DirectoryEntry(parent, name), to: DirectoryEntry(newParent, newName), flags: flags)
  }
}

private func fuseReadLink(_ request: fuse_req_t?, _ node: fuse_ino_t) {
  guard let call = Call(request) else { return }
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.readLink(NodeID(node))
  } _: { reply, target in
    reply.link(target)
  }
}

// MARK: Attributes

private func fuseGetAttributes(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request) else { return }
  let node = NodeID(node)
  let filesystem = call.filesystem
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.attributes(of: node, handle: info?.pointee.fh)
  } _: { reply, status in
    reply.attributes(status, changesByItself: node.isVirtual || filesystem.changesUnseen(node))
  }
}

private func fuseSetAttributes(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ attributes: UnsafeMutablePointer<stat>?, _ toSet: Int32,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let attributes else { return }
  let node = NodeID(node)
  let changes = AttributeChanges(attributes.pointee, toSet: toSet)
  let filesystem = call.filesystem
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.setAttributes(of: node, changes, handle: info?.pointee.fh)
  } _: { reply, status in
    reply.attributes(status, changesByItself: node.isVirtual || filesystem.changesUnseen(node))
  }
}

extension AttributeChanges {
  /// The fields of `attributes` that the bits of `toSet` name.
  init(_ attributes: stat, toSet: Int32) {
    func has(_ bit: Int32) -> Bool { toSet & bit != 0 }
    if has(FUSE_SET_ATTR_MODE) { mode = attributes.st_mode & 0o7777 }
    if has(FUSE_SET_ATTR_UID) { user = attributes.st_uid }
    if has(FUSE_SET_ATTR_GID) { group = attributes.st_gid }
    if has(FUSE_SET_ATTR_SIZE) { size = Int64(attributes.st_size) }
    if has(FUSE_SET_ATTR_ATIME_NOW) {
      accessed = .now
    } else if has(FUSE_SET_ATTR_ATIME) {
      accessed = .at(seconds: attributes.st_atim.tv_sec, nanoseconds: attributes.st_atim.tv_nsec)
    }
    if has(FUSE_SET_ATTR_MTIME_NOW) {
      modified = .now
    } else if has(FUSE_SET_ATTR_MTIME) {
      modified = .at(seconds: attributes.st_mtim.tv_sec, nanoseconds: attributes.st_mtim.tv_nsec)
    }
  }
}

private func fuseStatistics(_ request: fuse_req_t?, _ node: fuse_ino_t) {
  guard let call = Call(request) else { return }
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.statistics()
  } _: { reply, numbers in
    reply.statistics(numbers)
  }
}

// MARK: Files

private func fuseOpen(_ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
  guard let call = Call(request), let info else { return }
  let filesystem = call.filesystem
  let opener = call.caller.thread
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.open(NodeID(node), flags: info.pointee.flags, by: opener)
  } _: { reply, opened in
    opened.fill(info)
    if !reply.opened(info) { filesystem.release(opened.handle) }
  }
}

private func fuseCreate(
  _ request: fuse_req_t?, _ parent: fuse_ino_t, _ name: UnsafePointer<CChar>?, _ mode: mode_t,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  let filesystem = call.filesystem
  let caller = call.caller
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.create(DirectoryEntry(parent, name), mode: mode, flags: info.pointee.flags, caller: caller)
  } _: { reply, created in
    reply.created(created, info, in: filesystem)
  }
}

private func fuseCreateTmpfile(
  _ request: fuse_req_t?, _ directory: fuse_ino_t, _ mode: mode_t, _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  let filesystem = call.filesystem
  let caller = call.caller
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.createTmpfile(in: NodeID(directory), mode: mode, flags: info.pointee.flags, caller: caller)
  } _: { reply, created in
    reply.created(created, info, in: filesystem)
  }
}

extension Reply {
  /// Takes back what was made for a caller that did not get it.
  fileprivate consuming func created(
    _ created: (found: FoundEntry, opened: Filesystem.Opened), _ info: UnsafeMutablePointer<fuse_file_info>,
    in filesystem: Filesystem
  ) {
    created.opened.fill(info)
    guard !self.created(created.found, info, changesUnseen: created.opened.changesUnseen) else { return }
    filesystem.release(created.opened.handle)
    filesystem.forget(created.found.node, count: 1)
  }
}

extension Filesystem.Opened {
  fileprivate func fill(_ info: UnsafeMutablePointer<fuse_file_info>) {
    uploadfs_set_open_answer(info, handle, isDirect, keepsCache, skipsFlush, backing?.rawValue ?? 0)
  }
}

private func fuseRead(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ size: Int, _ offset: off_t,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  let buffers = call.mount.readBuffers
  let buffer = buffers.take(atLeast: size)
  defer { buffers.give(back: buffer) }
  let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(size))
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.read(info.pointee.fh, at: Int64(offset), into: wanted)
  } _: { reply, count in
    reply.bytes(UnsafeRawBufferPointer(rebasing: wanted.prefix(count)))
  }
}

private func fuseWrite(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ bytes: UnsafePointer<CChar>?, _ size: Int, _ offset: off_t,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.write(
      info.pointee.fh, at: Int64(offset), UnsafeRawBufferPointer(start: bytes, count: size), flags: info.pointee.flags)
  } _: { reply, count in
    reply.written(count)
  }
}

private func fuseFlush(_ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
  guard let call = Call(request), let info else { return }
  let number = info.pointee.fh
  let closer = call.caller.thread
  call.answerDelivered { (filesystem) throws(SystemError) in try filesystem.flush(number, closer: closer) }
}

private func fuseRelease(_ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
  guard let call = Call(request), let info else { return }
  let number = info.pointee.fh
  call.mount.polls.forget(number)
  call.answerDone { (filesystem) throws(SystemError) in filesystem.release(number) }
}

private func fuseSynchronize(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ dataOnly: Int32, _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  call.answerDelivered { (filesystem) throws(SystemError) in
    try filesystem.synchronize(info.pointee.fh, dataOnly: dataOnly != 0)
  }
}

private func fuseAllocate(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ mode: Int32, _ offset: off_t, _ length: off_t,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  call.answerDone { (filesystem) throws(SystemError) in
    try filesystem.allocate(info.pointee.fh, mode: mode, offset: Int64(offset), length: Int64(length))
  }
}

private func fuseSeek(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ offset: off_t, _ whence: Int32,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.seek(info.pointee.fh, offset: Int64(offset), whence: whence)
  } _: { reply, position in
    reply.position(position)
  }
}

private func fusePoll(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?, _ poll: OpaquePointer?
) {
  guard let call = Call(request), let info else { return }
  let number = info.pointee.fh
  // Kept before the version is compared: a change in between then wakes the caller.
  if let poll { call.mount.polls.keep(poll, for: number) }
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.readyEvents(number)
  } _: { reply, events in
    reply.ready(events)
  }
}

// MARK: Directories

private func fuseOpenDirectory(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  let filesystem = call.filesystem
  call.answer { (filesystem) throws(SystemError) in
    try filesystem.openDirectory(NodeID(node))
  } _: { reply, number in
    info.pointee.fh = number
    if !reply.opened(info) { filesystem.release(number) }
  }
}

private func fuseReleaseDirectory(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  let number = info.pointee.fh
  call.answerDone { (filesystem) throws(SystemError) in filesystem.release(number) }
}

private func fuseReadDirectory(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ size: Int, _ cookie: off_t,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  call.sendListing(info.pointee.fh, size, Int64(cookie), isPlus: false)
}

private func fuseReadDirectoryPlus(
  _ request: fuse_req_t?, _ node: fuse_ino_t, _ size: Int, _ cookie: off_t,
  _ info: UnsafeMutablePointer<fuse_file_info>?
) {
  guard let call = Call(request), let info else { return }
  call.sendListing(info.pointee.fh, size, Int64(cookie), isPlus: true)
}
