import Dispatch
package import FileModel
package import Synchronization

/// A virtual tree of a directory with one file, whose bytes a test sets, and a link to it; and a second directory with a
/// file whose name is longer than a capture's can be.
package final class SettableTree: VirtualTree {
  private let text = Mutex<(version: UInt64, bytes: [UInt8])>((1, Array("one".utf8)))
  private let observer = Mutex<(@Sendable () -> Void)?>(nil)

  /// A file that comes and goes.
  package let hasGuest = Atomic<Bool>(false)
  /// What paths are about.
  package let subjects = Mutex<[String: VirtualSubject]>([:])
  /// Of every folder something is said.
  package let saysSomething = Atomic<Bool>(false)
  /// Words can be written to the file.
  package let isWritable = Atomic<Bool>(false)
  /// What was written to it.
  package let words = Mutex<[String]>([])
  /// Why nothing is taken.
  package let refusal = Mutex<VirtualWriteRefusal?>(nil)
  /// What becomes of the text once its bytes have been given out.
  private let next = Mutex<String?>(nil)

  private let isHolding = Atomic<Bool>(false)
  private let held = DispatchSemaphore(value: 0)
  private let gate = DispatchSemaphore(value: 0)

  package static let longName = String(repeating: "n", count: 255) + ".json"

  package init() {}

  package func set(_ bytes: String) {
    text.withLock { $0 = ($0.version + 1, Array(bytes.utf8)) }
    let observer = observer.withLock { $0 }
    observer?()
  }

  /// Sets the bytes as soon as they have been given out once more: between that and whatever follows it.
  package func setOnceRead(_ bytes: String) { next.withLock { $0 = bytes } }

  /// From now on a thread that wants the bytes gets none before ``letGo()``: a filesystem that hangs.
  package func hold() {
    // What an earlier end has left for threads that came later.
    while gate.wait(timeout: .now()) == .success {}
    isHolding.store(true, ordering: .relaxed)
  }

  /// Waits until a thread is held, for 60 seconds at most.
  package func waitUntilHeld() -> Bool { held.wait(timeout: .now() + 60) == .success }

  package func letGo() {
    guard isHolding.exchange(false, ordering: .relaxed) else { return }
    gate.signal()
  }

  package var topLevelNames: [[UInt8]] { [Array("status".utf8), Array(".uploadfs".utf8)] }

  package func subject(of path: RelativePath) -> VirtualSubject? { subjects.withLock { $0[path.displayText] } }

  package func hasDocuments(below folder: RelativePath) -> Bool { saysSomething.load(ordering: .relaxed) }

  package func node(at path: RelativePath) -> VirtualNode? {
    switch path.displayText {
    case "status", ".uploadfs": .directory
    case "status/file.json": .file(sizeBytes: text.withLock { $0.bytes.count })
    case "status/guest": hasGuest.load(ordering: .relaxed) ? .file(sizeBytes: 5) : nil
    case "status/link": .link(target: Array("file.json".utf8))
    case ".uploadfs/" + Self.longName: .file(sizeBytes: 4)
    default: nil
    }
  }

  package func entries(of directory: RelativePath) -> [VirtualEntry] {
    let names =
      switch directory.displayText {
      case "status": ["file.json", "guest", "link"]
      case ".uploadfs": [Self.longName]
      default: [String]()
      }
    return names.compactMap { name in
      node(at: directory.appending(Array(name.utf8))).map { VirtualEntry(name: Array(name.utf8), node: $0) }
    }
  }

  package func contents(of path: RelativePath) -> [UInt8]? {
    if isHolding.load(ordering: .relaxed) {
      held.signal()
      gate.wait()
      // For the next thread.
      gate.signal()
    }
    switch path.displayText {
    case "status/file.json":
      let bytes = text.withLock { $0.bytes }
      if let next = next.withLock({ $0.take() }) { set(next) }
      return bytes
    case "status/guest": return hasGuest.load(ordering: .relaxed) ? Array("guest".utf8) : nil
    case ".uploadfs/" + Self.longName: return Array("long".utf8)
    default: return nil
    }
  }

  package func isWritable(_ path: RelativePath) -> Bool {
    path.displayText == "status/file.json" && isWritable.load(ordering: .relaxed)
  }

  package func write(_ bytes: [UInt8], to path: RelativePath) throws(VirtualWriteRefusal) {
    if let refusal = refusal.withLock({ $0 }) { throw refusal }
    words.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) }
  }

  package func version(of path: RelativePath) -> UInt64 {
    path.displayText == "status/file.json" ? text.withLock { $0.version } : 0
  }

  package func observeChanges(_ observer: @escaping @Sendable () -> Void) {
    self.observer.withLock { $0 = observer }
  }
}
