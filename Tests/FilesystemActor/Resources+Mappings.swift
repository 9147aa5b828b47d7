import FilesystemCalls
import Glibc

extension Resources {
  func makeMappingCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .mmap(let slot, let count, let kind, let name):
      let (protection, flags): (Int32, Int32) =
        switch kind {
        case .sharedReadOnly: (PROT_READ, MAP_SHARED)
        case .sharedReadWrite: (PROT_READ | PROT_WRITE, MAP_SHARED)
        case .privateReadOnly: (PROT_READ, MAP_PRIVATE)
        case .privateReadWrite: (PROT_READ | PROT_WRITE, MAP_PRIVATE)
        }
      let start = Glibc.mmap(nil, count, protection, flags, try descriptor(slot), 0)
      guard let start, start != MAP_FAILED else { throw Errno(errno) }
      keep(Mapping(start: start, count: count), as: name)
    case .load(let slot, let offset, let count):
      let mapping = try mapping(slot)
      guard offset >= 0, count >= 0, offset + count <= mapping.count else { throw Errno(EFAULT) }
      return .content(Content(UnsafeRawBufferPointer(start: mapping.start + offset, count: count)))
    case .store(let slot, let offset, let payload):
      let (mapping, bytes) = (try mapping(slot), payload.bytes)
      guard offset >= 0, offset + bytes.count <= mapping.count else { throw Errno(EFAULT) }
      UnsafeMutableRawBufferPointer(start: mapping.start + offset, count: bytes.count).copyBytes(from: bytes)
    case .transfer(let source, let from, let target, let to, let count):
      let (source, target) = (try mapping(source), try mapping(target))
      guard from >= 0, to >= 0, from + count <= source.count, to + count <= target.count else { throw Errno(EFAULT) }
      memmove(target.start + to, source.start + from, count)
    case .msync(let slot, let offset, let count):
      let mapping = try mapping(slot)
      try checked(Glibc.msync(mapping.start + offset, count ?? mapping.count - offset, Int32(MS_SYNC)))
    case .munmap(let slot):
      let mapping = try takeMapping(slot)
      try checked(Glibc.munmap(mapping.start, mapping.count))
    default: throw Errno(ENOSYS)
    }
    return .done
  }
}
