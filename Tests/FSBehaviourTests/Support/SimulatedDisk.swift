import CLinux
import Foundation
import Glibc
import Synchronization

@testable import UploadFS

/// A disk on which nothing lies but a test's captures.
struct SimulatedDisk: Sendable {
  static let blockBytes = 4096

  let blocks: Int
  /// Blocks that are free, but not for ordinary users.
  var rootBlocks = 0
  /// What other programs have written beside the spool, which may become more.
  let takenByOthers = Taken()

  final class Taken: Sendable {
    let blocks = Atomic<Int>(0)
  }

  /// What statvfs(2) says of it.
  func source(captures: String) -> SpoolSpace.Source {
    { () throws(SystemError) in
      var numbers = uploadfs_space()
      numbers.preferred_bytes = UInt64(Self.blockBytes)
      numbers.block_bytes = UInt64(Self.blockBytes)
      numbers.blocks = UInt64(blocks)
      let free = max(0, blocks - Self.usedBlocks(captures) - takenByOthers.blocks.load(ordering: .relaxed))
      numbers.free_blocks = UInt64(free)
      numbers.available_blocks = UInt64(max(0, free - rootBlocks))
      return numbers
    }
  }

  /// By sizes: what the real disk allocates in advance does not matter.
  private static func usedBlocks(_ captures: String) -> Int {
    let paths = (try? FileManager.default.subpathsOfDirectory(atPath: captures)) ?? []
    return paths.reduce(0) { sum, path in
      var status = stat()
      guard lstat(captures + "/" + path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return sum }
      return sum + (Int(status.st_size) + blockBytes - 1) / blockBytes
    }
  }
}
