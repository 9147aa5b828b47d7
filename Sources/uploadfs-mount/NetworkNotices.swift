import CLinux
import Glibc
import Synchronization
import Threads

/// Tells of changes of this machine's links, addresses and routes (rtnetlink), on a thread of its own.
final class NetworkNotices: Sendable {
  /// One change is many notices: a link, its addresses, their routes.
  private static let gatheringMilliseconds: Int32 = 50

  private let notices: Int32
  /// Readable once the thread is to end.
  private let end: Int32

  /// Nil where the kernel tells of nothing: uploads go on without it, and find a dead connection by its silence.
  init?() {
    let notices = uploadfs_open_network_notices()
    guard notices >= 0 else { return nil }
    let end = uploadfs_open_event()
    guard end >= 0 else {
      close(notices)
      return nil
    }
    // Last: an object whose properties are all set is deinitialized also where its initializer fails.
    self.notices = notices
    self.end = end
  }

  deinit {
    close(notices)
    close(end)
  }

  /// Calls `changed` after each change. False where the system has no thread left.
  func start(_ changed: @escaping @Sendable () -> Void) -> Bool {
    DedicatedThread.start("network") { [self] in
      while readable(of: [end, notices], withinMilliseconds: -1) == notices {
        // What follows closely belongs to the same change.
        guard readable(of: [end], withinMilliseconds: Self.gatheringMilliseconds) == nil else { return }
        switch uploadfs_read_network_notices(notices) {
        case 1: changed()
        case 0: continue
        default: return
        }
      }
    }
  }

  /// Ends the thread.
  func stop() { uploadfs_signal_event(end) }

  /// The first of the descriptors that is readable; nil where none is in time.
  private func readable(of descriptors: [Int32], withinMilliseconds time: Int32) -> Int32? {
    var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    while poll(&polled, nfds_t(polled.count), time) < 0 {
      guard errno == EINTR else { return end }
    }
    return polled.first { $0.revents != 0 }?.fd
  }
}
