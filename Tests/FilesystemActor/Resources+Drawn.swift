import FilesystemCalls
import Glibc

extension Resources {
  /// Makes a step of the random model.
  func make(_ call: DrawnCall) throws(Errno) -> Answer {
    switch call {
    case .seek(let slot, let offset, let whence):
      return .number(Int64(try checked(lseek(regularFile(slot), off_t(offset), whence.rawValue))))
    case .seekHole(let slot, let offset): return try holes(in: regularFile(slot), from: off_t(offset))
    case .map(let slot): return try mapWhole(slot)
    case .load(let slot, let offset, let count):
      guard let part = try part(of: slot, offset, count) else { return .done }
      return .content(Content(UnsafeRawBufferPointer(part)))
    case .store(let slot, let offset, let payload):
      let bytes = payload.bytes
      guard let part = try part(of: slot, offset, bytes.count) else { return .done }
      part.copyBytes(from: bytes.prefix(part.count))
      return try makeMappingCall(.msync(slot))
    case .outline(let withContents): return .tree(try outline(withContents))
    }
  }

  private func size(_ descriptor: Int32) throws(Errno) -> off_t {
    var facts = Glibc.stat()
    try checked(Glibc.fstat(descriptor, &facts))
    return facts.st_size
  }

  private func regularFile(_ slot: Slot) throws(Errno) -> Int32 {
    let descriptor = try descriptor(slot)
    var facts = Glibc.stat()
    try checked(Glibc.fstat(descriptor, &facts))
    guard facts.st_mode & S_IFMT == S_IFREG else { throw Errno(EISDIR) }
    return descriptor
  }

  /// Zero for holes that are empty, and otherwise the number of bytes that are none.
  private func holes(in descriptor: Int32, from offset: off_t) throws(Errno) -> Answer {
    let size = try size(descriptor)
    let position = try checked(lseek(descriptor, 0, SEEK_CUR))
    defer { lseek(descriptor, position, SEEK_SET) }
    let hole = lseek(descriptor, offset, Whence.hole.rawValue)
    guard offset < size else { return hole < 0 ? .failed(Errno(errno)) : .number(Int64(hole)) }
    try checked(hole)
    var data = lseek(descriptor, offset, Whence.data.rawValue)
    if data < 0, errno == ENXIO { data = size }
    guard try checked(data) <= size, data >= offset, hole >= offset, hole <= size else { throw Errno(ERANGE) }
    return try withPages(Int(data - offset)) { pages throws(Errno) in
      let count = pread(descriptor, pages.baseAddress, Int(data - offset), offset)
      // Opened for writing only.
      if count < 0, errno == EBADF { return .number(0) }
      return .number(Int64(pages.prefix(try checked(count)).count { $0 != 0 }))
    }
  }

  private func mapWhole(_ slot: Slot) throws(Errno) -> Answer {
    let size = try size(descriptor(slot))
    if let before = try? takeMapping(slot) { munmap(before.start, before.count) }
    if size > 0 { _ = try makeMappingCall(.mmap(slot, size, .sharedReadWrite, as: slot)) }
    return .number(Int64(size))
  }

  private func part(of slot: Slot, _ offset: Int64, _ count: Int) throws(Errno) -> UnsafeMutableRawBufferPointer? {
    guard let mapping = try? mapping(slot) else { return nil }
    let end = min(mapping.count, Int(try size(descriptor(slot))), Int(offset) + count)
    guard offset < end else { return nil }
    return UnsafeMutableRawBufferPointer(start: mapping.start + Int(offset), count: end - Int(offset))
  }

  private func outline(_ withContents: Bool) throws(Errno) -> [TreeEntry] {
    var entries = [try entry(".", withContents)]
    var folders: [Bytes] = ["."]
    while let folder = folders.popLast() {
      for name in try names(Path(folder)) {
        let entry = try entry(Path(Bytes(folder.bytes + [UInt8(ascii: "/")] + name.bytes)), withContents)
        if entry.status.isDirectory, entry.failure == nil { folders.append(entry.path) }
        entries.append(entry)
      }
    }
    return entries.sorted { $0.path.bytes.lexicographicallyPrecedes($1.path.bytes) }
  }

  private func entry(_ path: Path, _ withContents: Bool) throws(Errno) -> TreeEntry {
    let status = try status(path, follows: false)
    do throws(Errno) {
      if status.isDirectory { _ = try names(path) }
      let content = status.isRegular && withContents ? Content(try bytes(of: path)).summary : nil
      return TreeEntry(
        path: path.bytes, status: status, content: content, target: status.isLink ? Bytes(try target(path)) : nil,
        failure: nil)
    } catch {
      return TreeEntry(path: path.bytes, status: status, content: nil, target: nil, failure: error)
    }
  }
}
