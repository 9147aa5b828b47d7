import CFilesystemCalls
import FilesystemCalls
import Glibc

extension Resources {
  func makeCopyCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .copyFileRange(let from, let to, let count, let reading, let writing):
      return .number(
        Int64(
          try checked(
            calls_copy_file_range(descriptor(from), off_t(reading ?? -1), descriptor(to), off_t(writing ?? -1), count)))
      )
    case .sendfile(let from, let to, let offset, let count):
      return .number(Int64(try checked(calls_sendfile(descriptor(to), descriptor(from), off_t(offset), count))))
    case .pipe(let reading, let writing):
      var ends: [Int32] = [-1, -1]
      try checked(calls_pipe(&ends))
      keep(ends[0], as: reading)
      keep(ends[1], as: writing)
    case .splice(let from, let to, let count):
      return .number(Int64(try checked(calls_splice(descriptor(from), descriptor(to), count))))
    case .clone(let from, let to): try checked(calls_clone(descriptor(to), descriptor(from)))
    default: throw Errno(ENOSYS)
    }
    return .done
  }
}
