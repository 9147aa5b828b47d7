import Glibc
import Synchronization

/// How many open files are kept only to be asked what the disk has refused: a part of what the process may have open.
final class KeptDescriptors: Sendable {
  private let count = Atomic<Int>(0)
  private let countMax: Int

  /// - Parameter countMax: A quarter of what the process may have open, unless said otherwise.
  init(countMax: Int? = nil) {
    var limit = rlimit()
    let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    self.countMax = countMax ?? (isKnown ? Int(clamping: limit.rlim_cur) / 4 : 256)
  }

  /// Opens the file once more, for reading alone, so that it does not count as one with a writer. What was not told of
  /// its failures so far is told to the next opener. Nil where there are too many, or the system opens no more: then the disk is
  /// to have everything before the last one is closed.
  func keep(_ descriptor: FileDescriptor) -> KeptDescriptor? {
    guard mayKeepOne() else { return nil }
    do throws(SystemError) {
      return KeptDescriptor(try descriptor.reopenedForReading(), of: self)
    } catch  where error == .accessDenied || error == .notPermitted {
      // A file whose mode denies its owner to read.
      return KeptDescriptor(descriptor, of: self)
    } catch {
      giveBack()
      return nil
    }
  }

  /// The same where the caller has opened it once more.
  func keep(opened descriptor: FileDescriptor) -> KeptDescriptor? {
    mayKeepOne() ? KeptDescriptor(descriptor, of: self) : nil
  }

  private func mayKeepOne() -> Bool {
    guard count.add(1, ordering: .relaxed).newValue <= countMax else {
      giveBack()
      return false
    }
    return true
  }

  fileprivate func giveBack() { count.subtract(1, ordering: .relaxed) }
}

/// An open file that is kept, and counts until it is let go of.
final class KeptDescriptor: Sendable {
  let descriptor: FileDescriptor
  private let owner: KeptDescriptors

  fileprivate init(_ descriptor: FileDescriptor, of owner: KeptDescriptors) {
    self.descriptor = descriptor
    self.owner = owner
  }

  deinit { owner.giveBack() }
}
