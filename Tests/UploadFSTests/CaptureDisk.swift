import CLinux
import FileModel
import Glibc

@testable import UploadFS

/// A disk on which only one spool's captures lie, each with as many blocks as its size needs.
struct CaptureDisk: Sendable {
  static let blockBytes: UInt64 = 4096

  let blocks: UInt64

  /// What statvfs(2) says of it.
  func source(_ folder: TemporaryFolder) -> SpoolSpace.Source {
    { () throws(SystemError) in
      var numbers = uploadfs_space()
      numbers.block_bytes = UInt64(Self.blockBytes)
      numbers.preferred_bytes = UInt64(Self.blockBytes)
      numbers.blocks = blocks
      let used = Self.usedBlocks(folder.path + "/spool/captures")
      numbers.free_blocks = blocks > used ? blocks - used : 0
      numbers.available_blocks = numbers.free_blocks
      return numbers
    }
  }

  private static func usedBlocks(_ path: String) -> UInt64 {
    guard let stream = opendir(path) else { return 0 }
    defer { closedir(stream) }
    var used: UInt64 = 0
    while let entry = readdir(stream) {
      var status = stat()
      let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
        tuple.withMemoryRebound(to: CChar.self, capacity: 256) { EntryName(cString: $0) }
      }
      if fstatat(dirfd(stream), name.cString, &status, AT_SYMLINK_NOFOLLOW) == 0, status.kind == .regular {
        used += (UInt64(status.st_size) + blockBytes - 1) / blockBytes
      }
    }
    return used
  }
}
