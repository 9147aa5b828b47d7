import Glibc
import Synchronization

@testable import UploadEngine

/// Lets one effect, or that and all later ones, fail as a full disk does. A failing write leaves half of its bytes.
final class FailingEffects: Sendable {
  private let counter = Mutex(0)
  private let failAt: Int
  private let forever: Bool

  init(failAt: Int, forever: Bool) {
    self.failAt = failAt
    self.forever = forever
  }

  var count: Int { counter.withLock { $0 } }

  private func next() throws(StorageError) {
    let number = counter.withLock { count in
      count += 1
      return count
    }
    if number == failAt || (forever && number > failAt) { throw .system(ENOSPC, cannot: "do effect \(number)") }
  }

  var effects: FileEffects {
    FileEffects(
      write: { (descriptor, bytes) throws(StorageError) in
        try FileEffects.system.write(descriptor, Array(bytes.prefix(bytes.count / 2)))
        try self.next()
        try FileEffects.system.write(descriptor, Array(bytes.dropFirst(bytes.count / 2)))
      },
      sync: { (descriptor) throws(StorageError) in
        try self.next()
        try FileEffects.system.sync(descriptor)
      },
      rename: { (from, to) throws(StorageError) in
        try self.next()
        try FileEffects.system.rename(from, to)
      })
  }
}
