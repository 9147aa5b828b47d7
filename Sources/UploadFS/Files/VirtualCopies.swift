import Synchronization

/// The bytes that open virtual files show. Handles that show the same bytes of the same path share them, and all of them together
/// have a bound: beyond it those that were read longest ago are let go of, whoever has them open. Anybody may open as many files as
/// the system lets a user, and must not be able to fill the memory with it.
final class VirtualCopies: Sendable {
  /// One copy; lives as long as somebody shows it, or until there are too many.
  typealias ID = UInt64

  private struct Copy {
    var path: [UInt8]
    var bytes: [UInt8]
    var users: Int
    var lastUsed: UInt64

    /// With what is needed to keep it.
    var costBytes: Int { bytes.count + path.count + 1024 }
  }

  private struct State {
    var copies: [ID: Copy] = [:]
    var newest: [[UInt8]: ID] = [:]
    var costBytes = 0
    var clock: UInt64 = 0

    mutating func tick() -> UInt64 {
      clock += 1
      return clock
    }

    mutating func remove(_ id: ID) {
      guard let copy = copies.removeValue(forKey: id) else { return }
      costBytes -= copy.costBytes
      if newest[copy.path] == id { newest[copy.path] = nil }
    }
  }

  private let bytesMax: Int
  private let state = Mutex(State())

  init(bytesMax: Int = 64 << 20) { self.bytesMax = bytesMax }

  /// What they take together.
  var costBytes: Int { state.withLock { $0.costBytes } }

  /// Keeps bytes for one who shows them.
  func add(_ bytes: [UInt8], of path: [UInt8]) -> ID {
    state.withLock { state in
      let now = state.tick()
      if let id = state.newest[path], state.copies[id]?.bytes == bytes {
        state.copies[id]?.users += 1
        state.copies[id]?.lastUsed = now
        return id
      }
      let copy = Copy(path: path, bytes: bytes, users: 1, lastUsed: now)
      state.copies[now] = copy
      state.newest[path] = now
      state.costBytes += copy.costBytes
      if state.costBytes > bytesMax { letGo(of: &state, but: now) }
      return now
    }
  }

  /// One shows it no more.
  func remove(_ id: ID) {
    state.withLock { state in
      guard let users = state.copies[id]?.users else { return }
      if users > 1 { state.copies[id]?.users = users - 1 } else { state.remove(id) }
    }
  }

  /// The bytes; nil where they were let go of.
  func bytes(_ id: ID) -> [UInt8]? {
    state.withLock { state in
      let now = state.tick()
      state.copies[id]?.lastUsed = now
      return state.copies[id]?.bytes
    }
  }

  /// Well below the bound, so that not each opening has to look for the oldest.
  private func letGo(of state: inout State, but newest: ID) {
    let oldestFirst = state.copies.sorted { $0.value.lastUsed < $1.value.lastUsed }
    for (id, _) in oldestFirst where id != newest {
      guard state.costBytes > bytesMax / 4 * 3 else { return }
      state.remove(id)
    }
  }
}
