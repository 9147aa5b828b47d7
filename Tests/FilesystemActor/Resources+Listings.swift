import FilesystemCalls
import Glibc

extension Resources {
  func makeListingCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .list(let path): return .names(try names(path))
    case .opendir(let path, let slot):
      let number = try opened(path, .directory)
      guard let stream = fdopendir(number) else { throw Errno(errno) }
      keep(Stream(pointer: stream), as: slot)
    case .readdir(let slot, let count): return .names(try next(stream(slot), count))
    case .telldir(let slot): return .number(Int64(Glibc.telldir(try stream(slot))))
    case .seekdir(let slot, let position): Glibc.seekdir(try stream(slot), position)
    case .rewinddir(let slot): Glibc.rewinddir(try stream(slot))
    case .closedir(let slot): try checked(Glibc.closedir(takeStream(slot)))
    case .tree(let path): return .tree(try tree(path))
    default: throw Errno(ENOSYS)
    }
    return .done
  }

  private func next(_ stream: OpaquePointer, _ count: Int) throws(Errno) -> [Bytes] {
    var names: [Bytes] = []
    while names.count < count {
      errno = 0
      guard let entry = Glibc.readdir(stream) else {
        if errno != 0 { throw Errno(errno) }
        return names
      }
      let name = Bytes(entry)
      names.append(name)
    }
    return names
  }

  func names(_ path: Path) throws(Errno) -> [Bytes] {
    guard let stream = fdopendir(try opened(path, .directory)) else { throw Errno(errno) }
    defer { Glibc.closedir(stream) }
    return try next(stream, .max).filter { $0 != "." && $0 != ".." }
      .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
  }

  private func tree(_ root: Path) throws(Errno) -> [TreeEntry] {
    var entries: [TreeEntry] = []
    var folders = [root.bytes]
    while let folder = folders.popLast() {
      for name in try names(Path(folder)) {
        let path = Path(Bytes(folder.bytes + [UInt8(ascii: "/")] + name.bytes))
        let status = try status(path, follows: false)
        if status.isDirectory { folders.append(path.bytes) }
        entries.append(entry(path, status))
      }
    }
    return entries.sorted { $0.path.bytes.lexicographicallyPrecedes($1.path.bytes) }
  }

  private func entry(_ path: Path, _ status: Status) -> TreeEntry {
    do throws(Errno) {
      return TreeEntry(
        path: path.bytes, status: status, content: status.isRegular ? Content(try bytes(of: path)) : nil,
        target: status.isLink ? Bytes(try target(path)) : nil, failure: nil)
    } catch {
      return TreeEntry(path: path.bytes, status: status, content: nil, target: nil, failure: error)
    }
  }
}

extension Bytes {
  /// An entry's name. It may be longer than the 256 bytes that the type of its member has room for.
  fileprivate init(_ entry: UnsafePointer<dirent>) {
    let offset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 0
    let name = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: UInt8.self)
    self.init(
      UnsafeBufferPointer(start: name, count: strlen(UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self))))
  }
}
