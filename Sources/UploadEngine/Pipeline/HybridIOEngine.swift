import CLinux
import FileModel
import Glibc
import OrderedCollections
import Synchronization
import Threads

/// Opens captures for the read workers, and keeps open what they go on reading (docs/design/reading.md#reading).
///
/// A file is open while a chunk of it is read, and for at most ``idleNanoseconds`` after it; no more than
/// ``openFilesMax`` are kept. An open file holds its disk blocks, so none stays open without need.
final class HybridIOEngine: Sendable {
  private struct Kept {
    var file: CaptureReading
    var users: Int
    var lastUsed: Int64
  }

  /// As many as can be at work at once (16 small files and 16 large ones); beyond it files are opened for each chunk.
  static let openFilesMax = 32
  static let idleNanoseconds: Int64 = 1_000_000_000

  private let contents: any FileContents
  private let method: ReadingMethod
  private let counters: PipelineCounters
  private let kept = Mutex<OrderedDictionary<FileID, Kept>>([:])
  private let savesMemory = Atomic<Bool>(false)
  private let pageCache: PageCacheRelease

  /// - Parameter isAlone: No other destination reads the same files.
  init(contents: any FileContents, method: ReadingMethod, counters: PipelineCounters, isAlone: Bool = true) {
    self.contents = contents
    pageCache = PageCacheRelease(isShared: !isAlone)
    self.method = method
    self.counters = counters
  }

  /// Below the lowest threshold of ``MemoryBudget`` files that are opened from now on are not mapped.
  func setSavesMemory(_ isLow: Bool) { savesMemory.store(isLow, ordering: .relaxed) }

  /// What ``setSavesMemory(_:)`` said last.
  var isSavingMemory: Bool { savesMemory.load(ordering: .relaxed) }

  /// Files that are open now; for tests.
  var openCount: Int { kept.withLock { $0.count } }

  /// The file, open; goes back with ``end(_:isLastChunk:)``. It stays open for its next chunk if `isKept` says that there is
  /// one.
  func begin(_ id: FileID, isKept: Bool) throws(FileContentsError) -> CaptureReading {
    let now = monotonicNanoseconds()
    if let file = kept.withLock({ kept -> CaptureReading? in
      guard let index = kept.index(forKey: id) else { return nil }
      kept.values[index].users += 1
      kept.values[index].lastUsed = now
      return kept.values[index].file
    }) {
      do throws(FileContentsError) {
        if try file.file.identity() == file.opened { return file }
      } catch {
        // It is asked again below, through another description.
      }
      // Replaced or changed by another program: opened again, and the caller finds out what it is now.
      end(file, isLastChunk: true)
    }
    let file = try CaptureReading(
      id: id, file: contents.openForReading(id), method: method,
      savesMemory: savesMemory.load(ordering: .relaxed), counters: counters)
    if isKept { keep(file, at: now) }
    return file
  }

  /// The caller has read its chunk. After the last one there is nothing to stay open for.
  func end(_ file: CaptureReading, isLastChunk: Bool) {
    // What falls out of the table is closed at this function's end, not under the lock.
    _ = kept.withLock { kept -> CaptureReading? in
      guard let index = kept.index(forKey: file.id), kept.values[index].file === file else { return nil }
      kept.values[index].users -= 1
      return isLastChunk ? kept.remove(at: index).value.file : nil
    }
  }

  private func keep(_ file: CaptureReading, at now: Int64) {
    _ = kept.withLock { kept -> CaptureReading? in
      var dropped = kept.removeValue(forKey: file.id)?.file
      if kept.count >= Self.openFilesMax {
        guard let oldest = kept.filter({ $0.value.users == 0 }).min(by: { $0.value.lastUsed < $1.value.lastUsed })
        else { return dropped }
        dropped = kept.removeValue(forKey: oldest.key)?.file
      }
      kept[file.id] = Kept(file: file, users: 1, lastUsed: now)
      return dropped
    }
  }

  /// The file has no name any more: its place on the disk is wanted by others, now and not at the next check.
  func forget(_ id: FileID) {
    // Closed at this function's end, not under the lock, unless a worker reads from it; it then closes it.
    _ = kept.withLock { $0.removeValue(forKey: id)?.file }
    pageCache.forget(id)
  }

  // MARK: Page cache

  /// The receiver holds these bytes: they need not stay in the page cache. Called on a worker's thread.
  func acknowledged(_ trace: CacheTrace) {
    let open = kept.withLock { $0[trace.file]?.file }
    open?.letGo(of: trace.range)
    do throws(FileContentsError) {
      try pageCache.release(trace) { () throws(FileContentsError) in
        if let open { return open.file }
        return try contents.openForReading(trace.file)
      }
    } catch {
      // Its pages stay until the kernel needs the memory.
    }
  }

  /// Closes what has no reader any more, and drops the pages that were still dirty when they were acknowledged. Called
  /// about once a second.
  func sweep() {
    let now = monotonicNanoseconds()
    // Closed at this function's end, not under the lock.
    _ = kept.withLock { kept -> [CaptureReading] in
      let idle = kept.filter { $0.value.users == 0 && now - $0.value.lastUsed >= Self.idleNanoseconds }
      for id in idle.keys { kept[id] = nil }
      return idle.values.map(\.file)
    }
    pageCache.releaseAgain()
  }
}
