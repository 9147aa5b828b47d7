import CLinux
import FileModel
import Glibc
import Synchronization

/// Opening, reading and writing regular files.
extension Filesystem {
  /// How an open is to be answered.
  struct Opened: Hashable, Sendable {
    var handle: UInt64
    /// Past the page cache.
    var isDirect: Bool
    /// The kernel may keep the pages that it has.
    var keepsCache: Bool
    /// Nothing has to be said when a descriptor of it is closed.
    var skipsFlush: Bool
    /// The file of the spool that the kernel is to use.
    var backing: BackingID?
    /// The file may change without the daemon's knowledge, and the kernel has to ask how long it is.
    var changesUnseen = false
  }

  // MARK: Opening

  func open(_ node: NodeID, flags: Int32, by opener: pid_t = 0) throws(SystemError) -> Opened {
    if node.isVirtual { return try openVirtual(node, flags: flags) }
    guard let file = file(of: node) else { throw .stale }
    let access = flags & O_ACCMODE
    let writes = access == O_WRONLY || access == O_RDWR
    let truncates = flags & O_TRUNC != 0
    if writes || truncates { try requireAccepting() }
    let opened = try open(
      file, Request(reads: access != O_WRONLY, writes: writes, isNewContent: truncates, opener: opener))
    guard truncates else { return opened }
    do throws(SystemError) {
      // O_RDONLY | O_TRUNC truncates as well, and the kernel takes the file for empty from here on.
      let descriptor = try writes ? fileHandle(opened.handle).descriptor : descriptorForTruncation(of: node).descriptor
      try truncate(file, to: 0, through: descriptor)
    } catch {
      release(opened.handle)
      throw error
    }
    return opened
  }

  /// What a file is opened for, and by which thread.
  struct Request {
    var reads: Bool
    var writes: Bool
    /// It is made, or emptied.
    var isNewContent: Bool
    var opener: pid_t
  }

  private func open(_ file: CapturedFile, _ request: Request) throws(SystemError) -> Opened {
    guard request.writes else {
      return try namespaceLock.shared { () throws(SystemError) in
        try file.state.withLock { (state) throws(SystemError) in
          try openLocked(file, &state, request)
        }
      }
    }
    var opened: Opened?
    try announce(file) { (state) throws(SystemError) -> PendingEvent? in
      opened = try openLocked(file, &state, request)
      return state.activity.openedForWriting().map { PendingEvent($0) }
    }
    guard let opened else { throw .inputOutput }
    if opened.changesUnseen { try beginUnseenWriting(opened.handle) }
    return opened
  }

  /// The namespace lock and the file's lock are held.
  private func openLocked(
    _ file: CapturedFile, _ state: inout CapturedFile.State, _ request: Request
  ) throws(SystemError) -> Opened {
    readMark(of: file, &state)
    let descriptor: FileDescriptor
    if let shared = state.handles.descriptor, shared.isReadable || !request.reads, shared.isWritable || !request.writes
    {
      descriptor = shared
    } else {
      if state.handles.count == 0 { try openCaptures.requireRoom() }
      descriptor = try openSpoolFile(file, &state, writes: request.writes)
      state.handles.share(descriptor)
    }
    let mode: mode_t
    do throws(SystemError) {
      mode = try descriptor.status().st_mode
    } catch {
      // What is done for a file that has them is right for one that has not.
      mode = S_ISUID | S_ISGID
    }
    return register(file, &state, descriptor, mode: mode, request)
  }

  /// The namespace lock and the file's lock are held.
  func register(
    _ file: CapturedFile, _ state: inout CapturedFile.State, _ descriptor: FileDescriptor, mode: mode_t,
    _ request: Request
  ) -> Opened {
    if state.handles.opened() { openCaptures.opened() }
    let wholeEpoch = state.wholeEpoch
    if request.writes { openWriters.opened() }
    let opening = CachingPolicy.Opening(
      reads: request.reads, writes: request.writes, hasSetIDBits: mode & (S_ISUID | S_ISGID) != 0)
    let choice = chooseRoute(of: file, &state, descriptor, opening, isNewContent: request.isNewContent)
    state.caching.opened(choice)
    if choice.writesUnseen { state.handles.passthroughWriterBegan() }
    if choice.route.isPassthrough { passthrough.handleOpened() }
    let handle = FileHandle(
      file: file, descriptor: descriptor, choice: choice, opener: request.opener, wholeEpoch: wholeEpoch)
    return Opened(
      handle: handles.withLock { $0.insert(.file(handle)) }, isDirect: choice.route.isDirect,
      keepsCache: choice.keepsCache, skipsFlush: !request.writes,
      backing: choice.route.isPassthrough ? state.handles.backing : nil,
      changesUnseen: choice.writesUnseen)
  }

  /// Opens the spool's file for both directions if it can, so that every later handle can share the descriptor.
  private func openSpoolFile(
    _ file: CapturedFile, _ state: inout CapturedFile.State, writes: Bool
  ) throws(SystemError) -> FileDescriptor {
    do throws(SystemError) {
      return FileDescriptor(owning: try openSpoolFile(file, &state, O_RDWR), isReadable: true, isWritable: true)
    } catch  where error == .accessDenied || error == .readOnly || error == .notPermitted {
      // An ordinary user's daemon and a file whose mode denies its owner one direction.
      return FileDescriptor(
        owning: try openSpoolFile(file, &state, writes ? O_WRONLY : O_RDONLY), isReadable: !writes,
        isWritable: writes)
    }
  }

  /// The namespace lock and the file's lock are held: whether another program writes the file is asked before the daemon's own
  /// descriptor may, and not in between.
  func openSpoolFile(
    _ file: CapturedFile, _ state: inout CapturedFile.State, _ flags: Int32
  ) throws(SystemError) -> Int32 {
    askForSurvivingWriter(of: file, &state)
    guard let known = nodes.withLock({ $0.table[file.node] }) else { throw .stale }
    if known.names.isEmpty {
      guard let holder = state.handles.descriptor ?? known.pin else { throw .stale }
      return try check(uploadfs_openat(AT_FDCWD, holder.reopenPath, flags | O_CLOEXEC, 0))
    }
    do throws(SystemError) {
      return try open(file, at: location(of: file.node), flags)
    } catch {
      throw error == .notFound ? .stale : error
    }
  }

  /// Opens what stands there if it is this file. What another program may have put there is not opened: a FIFO would wait for its other
  /// end, with the locks that are held here, and some devices do something.
  func open(_ file: CapturedFile, at place: borrowing SpoolLocation, _ flags: Int32) throws(SystemError) -> Int32 {
    guard file.matches(try place.status()) else { throw .stale }
    let number = try place.open(flags | O_NONBLOCK)
    var status = stat()
    var failure: SystemError?
    // Exchanged a moment ago, or not to be told.
    if fstat(number, &status) != 0 { failure = .last } else if !file.matches(status) { failure = .stale }
    guard let failure else { return number }
    close(number)
    throw failure
  }

  /// Makes and opens a file; opens the one that is there when the caller did not ask for O_EXCL.
  func create(_ entry: DirectoryEntry, mode: mode_t, flags: Int32, caller: Caller) throws(SystemError)
    -> (found: FoundEntry, opened: Opened)
  {
    try requireFree(entry)
    try requireAccepting()
    do throws(SystemError) {
      return try space.withRoomForOne(from: self) { () throws(SystemError) in
        try createNew(entry, mode: mode, flags: flags, caller: caller)
      }
    } catch  where error == .exists && flags & O_EXCL == 0 {
      guard let found = try lookup(entry) else { throw .stale }
      do throws(SystemError) {
        return (found, try open(found.node, flags: flags, by: caller.thread))
      } catch {
        forget(found.node, count: 1)
        throw error
      }
    }
  }

  private func createNew(_ entry: DirectoryEntry, mode: mode_t, flags: Int32, caller: Caller) throws(SystemError)
    -> (found: FoundEntry, opened: Opened)
  {
    let created = try createUnannounced(entry, mode: mode, flags: flags, caller: caller)
    if created.writes { beginAsking(of: created, at: entry) }
    if created.opened.changesUnseen { try beginUnseenWriting(created.opened.handle) }
    announce(created.file) { state in
      guard !created.writes else { return nil }
      flushes.add(created.file)
      return state.activity.madeWithoutWriter().map { PendingEvent($0) }
    }
    return (created.found, created.opened)
  }

  /// Its first change is near. Until then it is opened once more by its name, which costs half of what it does by its descriptor; where
  /// another file has the name by now, or the mode denies it, the first change does that.
  private func beginAsking(of created: CreatedFile, at entry: DirectoryEntry) {
    namespaceLock.shared {
      do throws(SystemError) {
        let place = try location(of: entry)
        let reader = FileDescriptor(
          owning: try place.open(O_RDONLY | O_NONBLOCK), isReadable: true, isWritable: false)
        guard created.file.matches(try reader.status()) else { return }
        created.file.state.withLock { state in
          if state.writeBack.asking == nil, !state.activity.isGone {
            state.writeBack.beginAsking(through: keptDescriptors.keep(opened: reader))
          }
        }
      } catch {
        // The first change tries it in the other way.
      }
    }
  }

  /// A file that was made and opened, and of which nothing was said yet.
  struct CreatedFile {
    var found: FoundEntry
    var file: CapturedFile
    var opened: Opened
    var writes: Bool
  }

  /// Until the caller announces the file, another call that comes upon it may do so, or take its name away.
  func createUnannounced(
    _ entry: DirectoryEntry, mode: mode_t, flags: Int32, caller: Caller
  ) throws(SystemError) -> CreatedFile {
    let access = flags & O_ACCMODE
    let writes = access == O_WRONLY || access == O_RDWR
    return try namespaceLock.exclusive { () throws(SystemError) -> CreatedFile in
      let place = try location(of: entry)
      try openCaptures.requireRoom()
      let descriptor = FileDescriptor(
        owning: try place.open(O_RDWR | O_CREAT | O_EXCL, mode: mode & 0o7777), isReadable: true, isWritable: true)
      // Before anything else: making it was its first change, and the mount may die at any moment.
      // Where the disk refuses, the first change tries it again. Without attributes an empty file counts as whole.
      let id = FileID.new()
      let label = FileLabel(id: id, mark: .writing(in: instance))
      let isMarked = writes && marksWriters && SpoolLabel.put(label, on: descriptor)
      let status = try orUnmake(place) { (place) throws(SystemError) in
        try giveToCaller(place, in: entry.directory, caller)
        return try descriptor.status()
      }
      forgetRecordedMark(of: status.key)
      let node = adoptNew(status, at: entry, as: id, counting: true)
      guard let file = file(of: node) else { throw .inputOutput }
      let opened = file.state.withLock { state in
        state.handles.share(descriptor)
        // Sent once no lock is held, before anything else is said of this file.
        if writes {
          state.announcement.created(isOpenedPending: state.activity.openedForWriting() != nil)
          if isMarked { state.disk.doubted(.writing(in: instance)) }
          flushes.add(file)
        }
        let request = Request(reads: access != O_WRONLY, writes: writes, isNewContent: true, opener: caller.thread)
        return register(file, &state, descriptor, mode: status.st_mode, request)
      }
      let found = FoundEntry(node: node, status: spool.shownInodes.shown(status))
      return CreatedFile(found: found, file: file, opened: opened, writes: writes)
    }
  }

  /// The last descriptor of a handle is closed, or its opener was interrupted before it got one.
  ///
  /// Virtual files and directories only lose their number.
  func release(_ number: UInt64) {
    guard case .file(let handle)? = handles.withLock({ $0.remove(number) }) else { return }
    let file = handle.file
    if handle.writes {
      announce(file) { state in closed(handle, &state) }
    }
    defer { if handle.writes { openWriters.ended() } }
    var mustSynchronize = false
    let last = file.state.withLock { state -> FileDescriptor? in
      state.caching.closed(handle.choice, isResting: handle.isResting.load(ordering: .sequentiallyConsistent))
      if handle.choice.mayLeaveMapping { state.caching.leftMapping() }
      let isLast = state.handles.released()
      if handle.choice.route.isPassthrough { passthrough.handleReleased() }
      if state.caching.passthroughHandles == 0 { returnBacking(&state) }
      // The daemon has not seen what the kernel has read for it.
      if handle.choice.route.isPassthrough { file.diskReads.withLock { $0.mayHaveReadAll() } }
      guard isLast else { return nil }
      openCaptures.closed()
      let isChanged = handle.writes || state.activity.epoch > 0
      mustSynchronize =
        isChanged && !state.disk.isSynchronized && !state.activity.isGone && state.writeBack.asking == nil
      return state.handles.takeDescriptor()
    }
    // Closed here, without the lock, unless a system call of another thread still uses it. Where the kernel could not be asked
    // afterwards it is asked first whether the disk has everything.
    if mustSynchronize, let last { synchronizeBeforeClosing(file, last) }
    if handle.choice.writesUnseen { endUnseenWriting(handle) }
  }

  // MARK: Reading and writing

  func read(_ number: UInt64, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
    switch try handle(number) {
    case .file(let handle):
      let count = try readNoting(handle.file, handle.descriptor, at: offset, into: buffer)
      let start = UInt64(clamping: offset)
      try requirePresent(start..<(start + UInt64(count)), of: handle.file)
      return count
    case .virtual(let handle): return try readVirtual(handle, at: offset, into: buffer)
    case .directory: throw .isDirectory
    }
  }

  /// Reads until the buffer is full or the file ends.
  static func readFully(_ descriptor: FileDescriptor, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer)
    throws(SystemError) -> Int
  {
    guard let base = buffer.baseAddress, offset >= 0 else { return 0 }
    var done = 0
    while done < buffer.count {
      let count = try retryingInterrupts {
        pread(descriptor.number, base + done, buffer.count - done, off_t(offset &+ Int64(done)))
      }
      if count == 0 { break }
      done += count
    }
    return done
  }

  /// Writes at the offset that the kernel gives, and returns how many bytes the spool took.
  ///
  /// For O_APPEND the kernel's offset is the end of the file: it takes the inode's lock and knows the size, because every
  /// change passes through it. Choosing the offset again here would be wrong, since one large append arrives as several
  /// requests that different threads may handle in any order. The spool's descriptor is never O_APPEND.
  func write(_ number: UInt64, at offset: Int64, _ bytes: UnsafeRawBufferPointer) throws(SystemError) -> Int {
    guard case .file(let handle) = try handle(number) else { throw .readOnly }
    guard let base = bytes.baseAddress, !bytes.isEmpty else { return 0 }
    let file = handle.file
    let count: UInt64
    do throws(SystemError) {
      try requireSize(offset: offset, length: Int64(bytes.count))
      if settings(of: file)?.tooLarge == .refuse {
        try requireTaken(UInt64(offset) + UInt64(bytes.count), of: file, through: handle.descriptor)
      }
      // Before it waits for space in vain.
      try requirePresent(.bytes(UInt64(offset)..<UInt64(offset) + UInt64(bytes.count)), of: file)
      count = admit(UInt64(bytes.count), at: offset, through: handle, isPartEnough: true)
      guard count > 0 else { throw .noSpace }
    } catch {
      if error != .invalid { writeFailed(file, at: offset, count: bytes.count, error) }
      throw error
    }
    willChange(through: handle)
    let start = UInt64(offset)
    let mutation: ContentMutation
    do throws(SystemError) {
      mutation = try beginMutation(of: file, .bytes(start..<(start + count)), through: handle.descriptor)
    } catch {
      writeFailed(file, at: offset, count: bytes.count, error)
      throw error
    }
    var written: Int?
    defer {
      endMutation(mutation, of: file, through: handle.descriptor, writtenBytes: written.map { UInt64($0) })
      // Kernels from 6.6 drop the pages themselves.
      if handle.writesBehindPages.load(ordering: .relaxed) { notices.pagesBecameStale(of: file.node) }
    }
    do throws(SystemError) {
      try requirePresent(mutation.extent, of: file)
      let taken = try changing(file, handle.descriptor, edges: [start, start + count]) { () throws(SystemError) in
        try Self.writeFully(handle.descriptor, at: offset, UnsafeRawBufferPointer(start: base, count: Int(count)))
      }
      written = taken
      // Kernels from 6.6 drop the pages themselves.
      if handle.writesBehindPages.load(ordering: .relaxed) { notices.pagesBecameStale(of: file.node) }
      return taken
    } catch {
      writeFailed(file, at: offset, count: bytes.count, error)
      throw error
    }
  }

  private static func writeFully(_ descriptor: FileDescriptor, at offset: Int64, _ bytes: UnsafeRawBufferPointer)
    throws(SystemError) -> Int
  {
    guard let base = bytes.baseAddress else { return 0 }
    var done = 0
    while done < bytes.count {
      do throws(SystemError) {
        done += try retryingInterrupts {
          pwrite(descriptor.number, base + done, bytes.count - done, off_t(offset &+ Int64(done)))
        }
      } catch {
        // What has been written counts; the rest of the caller's next write shows the error.
        if done > 0 { return done }
        throw error
      }
    }
    return done
  }

  private func requireSize(offset: Int64, length: Int64) throws(SystemError) {
    let (end, isOver) = offset.addingReportingOverflow(length)
    guard offset >= 0, length >= 0 else { throw .invalid }
    guard !isOver, UInt64(end) <= configuration.fileBytesMax else { throw .tooLarge }
  }

  /// A file of this size can be delivered, as far as its destinations have said; one that is as large already may stay so.
  private func requireTaken(
    _ size: UInt64, of file: CapturedFile, through descriptor: FileDescriptor
  ) throws(SystemError) {
    guard case .bytes(let limit) = sink.sizeLimit(of: file.id), size > limit else { return }
    guard size <= UInt64(clamping: try descriptor.status().st_size) else { throw .tooLarge }
  }

  /// fsync(2). What it gives is to be waited for.
  func synchronize(_ number: UInt64, dataOnly: Bool) throws(SystemError) -> AwaitedDelivery? {
    let descriptor: FileDescriptor
    switch try handle(number) {
    case .file(let handle): return try synchronize(handle, dataOnly: dataOnly)
    case .directory(let handle):
      guard let opened = handle.descriptor else { return nil }
      descriptor = opened
    case .virtual: return nil
    }
    try check(dataOnly ? fdatasync(descriptor.number) : fsync(descriptor.number))
    return nil
  }

  /// fallocate(2) with every mode that the spool's filesystem has.
  func allocate(_ number: UInt64, mode: Int32, offset: Int64, length: Int64) throws(SystemError) {
    let handle = try fileHandle(number)
    let punches = mode & uploadfs_falloc_punch_hole != 0
    if !punches {
      try requireSize(offset: offset, length: length)
      if mode & uploadfs_falloc_keep_size == 0 {
        try requireTaken(UInt64(offset) + UInt64(length), of: handle.file, through: handle.descriptor)
      }
      let bytes = UInt64(clamping: length)
      try requirePresent(.blocks(UInt64(offset)..<UInt64(offset) + bytes), of: handle.file)
      guard admit(bytes, at: offset, through: handle, isPartEnough: false) == bytes else { throw .noSpace }
    }
    guard offset >= 0, length > 0, offset <= Int64.max - length else { throw .invalid }
    willChange(through: handle)
    let extent = ContentExtent.blocks(UInt64(offset)..<UInt64(offset + length))
    let mutation = try beginMutation(of: handle.file, extent, through: handle.descriptor)
    defer { endMutation(mutation, of: handle.file, through: handle.descriptor, writtenBytes: nil) }
    try requirePresent(extent, of: handle.file)
    let edges = [UInt64(offset), UInt64(offset + length)]
    try changing(handle.file, handle.descriptor, edges: edges) { () throws(SystemError) in
      _ = try retryingInterrupts {
        Int(uploadfs_fallocate(handle.descriptor.number, mode, off_t(offset), off_t(length)))
      }
    }
  }

  /// What poll(2) says at once: a virtual file is readable when it has changed since it was read through this handle.
  func readyEvents(_ number: UInt64) throws(SystemError) -> UInt32 {
    guard case .virtual(let file) = try handle(number) else {
      return UInt32(POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)
    }
    return isReadable(file) ? UInt32(POLLIN | POLLRDNORM) : 0
  }

  /// SEEK_DATA and SEEK_HOLE; the kernel does the others itself.
  func seek(_ number: UInt64, offset: Int64, whence: Int32) throws(SystemError) -> Int64 {
    guard whence == uploadfs_seek_data || whence == uploadfs_seek_hole else { throw .invalid }
    switch try handle(number) {
    case .file(let handle) where handle.file.isPartlyReleased.load(ordering: .sequentiallyConsistent):
      // What is gone from the spool is no hole for its writer.
      let size = Int64(try handle.descriptor.status().st_size)
      guard offset >= 0, offset < size else { throw .outOfRange }
      return whence == uploadfs_seek_data ? offset : size
    case .file(let handle):
      let found = lseek(handle.descriptor.number, off_t(offset), whence)
      guard found >= 0 else { throw .last }
      return Int64(found)
    case .virtual(let handle):
      let size = Int64(handle.snapshot.withLock { $0.byteCount })
      guard offset >= 0, offset < size else { throw .outOfRange }
      return whence == uploadfs_seek_data ? offset : size
    case .directory: throw .invalid
    }
  }

  /// Changes a file's size through an open descriptor.
  func truncate(_ file: CapturedFile, to size: Int64, through descriptor: FileDescriptor) throws(SystemError) {
    try requireSize(offset: size, length: 0)
    try requireTaken(UInt64(size), of: file, through: descriptor)
    let mutation = try beginMutation(of: file, .size(UInt64(size)), through: descriptor)
    var isDone = false
    defer { endMutation(mutation, of: file, through: descriptor, writtenBytes: isDone ? 0 : nil) }
    try requirePresent(mutation.extent, of: file)
    let edges = [UInt64(size), size == 0 ? 0 : UInt64(clamping: try descriptor.status().st_size)]
    try changing(file, descriptor, edges: edges) { () throws(SystemError) in
      _ = try retryingInterrupts { Int(ftruncate(descriptor.number, off_t(size))) }
    }
    isDone = true
  }

  /// A descriptor for truncate(2), which comes without a handle.
  func descriptorForTruncation(of node: NodeID) throws(SystemError) -> (file: CapturedFile, descriptor: FileDescriptor)
  {
    guard let file = file(of: node) else { throw .stale }
    let descriptor = try namespaceLock.shared { () throws(SystemError) -> FileDescriptor in
      try file.state.withLock { (state) throws(SystemError) -> FileDescriptor in
        readMark(of: file, &state)
        if let current = state.handles.descriptor, current.isWritable { return current }
        return FileDescriptor(
          owning: try openSpoolFile(file, &state, O_WRONLY), isReadable: false, isWritable: true)
      }
    }
    return (file, descriptor)
  }
}
