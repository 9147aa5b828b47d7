import CFilesystemCalls
import FilesystemCalls
import Glibc

extension Resources {
  func makeContentCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .read(let slot, let count):
      let number = try descriptor(slot)
      return try content(count) { Glibc.read(number, $0, $1) }
    case .pread(let slot, let count, let offset):
      let number = try descriptor(slot)
      return try content(count) { Glibc.pread(number, $0, $1, off_t(offset)) }
    case .write(let slot, let payload):
      let number = try descriptor(slot)
      return try written(payload) { Glibc.write(number, $0, $1) }
    case .pwrite(let slot, let payload, let offset):
      let number = try descriptor(slot)
      return try written(payload) { Glibc.pwrite(number, $0, $1, off_t(offset)) }
    case .writev(let slot, let payloads): return .number(Int64(try writtenAtOnce(payloads, descriptor(slot))))
    case .lseek(let slot, let offset, let whence):
      return .number(Int64(try checked(Glibc.lseek(descriptor(slot), off_t(offset), whence.rawValue))))
    case .truncate(let path, let size): try at(path) { _, name in Glibc.truncate(name, off_t(size)) }
    case .ftruncate(let slot, let size): try checked(Glibc.ftruncate(descriptor(slot), off_t(size)))
    case .fallocate(let slot, let mode, let offset, let count):
      try checked(calls_fallocate(descriptor(slot), mode.rawValue, off_t(offset), off_t(count)))
    case .fsync(let slot): try checked(Glibc.fsync(descriptor(slot)))
    case .fdatasync(let slot): try checked(Glibc.fdatasync(descriptor(slot)))
    case .syncfs(let slot): try checked(calls_syncfs(descriptor(slot)))
    case .put(let path, let payload): try put(path, payload.bytes)
    case .get(let path): return .content(Content(try bytes(of: path)))
    case .countZeros(let slot, let count):
      let number = try descriptor(slot)
      return try withPages(count) { pages throws(Errno) in
        let done = try checked(Glibc.read(number, pages.baseAddress, count))
        return .number(Int64(pages.prefix(done).count { $0 == 0 }))
      }
    default: throw Errno(ENOSYS)
    }
    return .done
  }

  private func put(_ path: Path, _ bytes: [UInt8]) throws(Errno) {
    let number = try opened(path, [.writeOnly, .create, .truncate], 0o666)
    var failure: Int32 = 0
    bytes.withUnsafeBytes { buffer in
      var rest = buffer
      while !rest.isEmpty, failure == 0 {
        let count = Glibc.write(number, rest.baseAddress, rest.count)
        if count < 0 { failure = errno } else { rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count)) }
      }
    }
    // close(2) may wait, and fail, for the delivery.
    if Glibc.close(number) != 0, failure == 0 { failure = errno }
    if failure != 0 { throw Errno(failure) }
  }

  func bytes(of path: Path) throws(Errno) -> [UInt8] {
    let number = try opened(path, .readOnly)
    defer { Glibc.close(number) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 1 << 17)
    while true {
      let count = try checked(part.withUnsafeMutableBytes { Glibc.read(number, $0.baseAddress, $0.count) })
      if count == 0 { return bytes }
      bytes.append(contentsOf: part.prefix(count))
    }
  }

  /// Buffers lie at a page's beginning: O_DIRECT wants it.
  func withPages<Result>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Result)
    throws(Errno) -> Result
  {
    let pages = UnsafeMutableRawBufferPointer.allocate(byteCount: max(count, 1), alignment: 4096)
    defer { pages.deallocate() }
    return try body(UnsafeMutableRawBufferPointer(rebasing: pages.prefix(count)))
  }

  private func content(_ count: Int, _ read: (UnsafeMutableRawPointer?, Int) -> Int) throws(Errno) -> Answer {
    try withPages(count) { pages throws(Errno) in
      let done = try checked(read(pages.baseAddress, count))
      return .content(Content(pages.prefix(done)))
    }
  }

  private func written(_ payload: Payload, _ write: (UnsafeRawPointer?, Int) -> Int) throws(Errno) -> Answer {
    let bytes = payload.bytes
    return try withPages(bytes.count) { pages throws(Errno) in
      pages.copyBytes(from: bytes)
      return .number(Int64(try checked(write(pages.baseAddress, bytes.count))))
    }
  }

  private func writtenAtOnce(_ payloads: [Payload], _ number: Int32) throws(Errno) -> Int {
    let parts = payloads.map { payload in
      let bytes = payload.bytes
      let part = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 16)
      part.copyBytes(from: bytes)
      return iovec(iov_base: part.baseAddress, iov_len: bytes.count)
    }
    defer { for part in parts { part.iov_base?.deallocate() } }
    return try checked(Glibc.writev(number, parts, Int32(parts.count)))
  }
}
