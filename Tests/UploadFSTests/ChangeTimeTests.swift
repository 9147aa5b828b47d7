import CLinux
import Glibc
import Promises
import Testing

@testable import UploadFS

/// A file whose time of change is set by hand is none: the times here are those that a real file has.
@Suite struct ChangeTimeTests {
  private let folder: TemporaryFolder
  private let file: FileDescriptor

  init() throws {
    folder = try TemporaryFolder()
    file = FileDescriptor(
      owning: open(folder.path + "/a", O_RDWR | O_CREAT, 0o600), isReadable: true, isWritable: true)
  }

  private func change() {
    // Until the clock of the filesystem has gone on.
    let before = time()
    while time() == before { fchmod(file.number, 0o600) }
  }

  private func status() -> stat {
    var status = stat()
    fstat(file.number, &status)
    return status
  }

  private func time() -> timespec { status().st_ctim }

  @Test(.promises("S18d")) func whatTheDaemonDoes_isNotSeen_andWhatUsersDo_is() {
    var known = ChangeTime()
    let first = time()
    for _ in 0..<3 {
      let earlier = status()
      known.keep(over: file) { change() }
      #expect(time() != first && known.shown(status()).st_ctim == first)
      #expect(known.shown(earlier).st_ctim == first, "a status that was read before the label")
    }
    change()
    #expect(known.shown(status()).st_ctim == time())
    known.keep(over: file) { change() }
    // In the same tick of the clock.
    known.changed()
    #expect(known.shown(status()).st_ctim == time())
  }
}

extension timespec {
  fileprivate static func == (left: timespec, right: timespec) -> Bool {
    left.tv_sec == right.tv_sec && left.tv_nsec == right.tv_nsec
  }

  fileprivate static func != (left: timespec, right: timespec) -> Bool { !(left == right) }
}
