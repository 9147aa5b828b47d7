import Synchronization

/// What open handles show, as it was at one moment. Handles that show the same of the same place share it, and all of it together has a
/// bound: beyond it what was read longest ago is let go of, also while a handle has it open. A user may open as many files and
/// folders as the system allows, and must not be able to fill the memory with them.
final class SharedCopies<Place: Hashable & Sendable, Content: Equatable & Sendable>: Sendable {
  /// One copy; lives as long as a handle shows it, or until there are too many.
  typealias ID = UInt64

  private struct Copy {
    var place: Place
    var content: Content
    var users: Int
    var lastUsed: UInt64
    var costBytes: Int
  }

  private struct State {
    var copies: [ID: Copy] = [:]
    var newest: [Place: ID] = [:]
    var costBytes = 0
    var clock: UInt64 = 0

    mutating func tick() -> UInt64 {
      clock += 1
      return clock
    }

    mutating func remove(_ id: ID) {
      guard let copy = copies.removeValue(forKey: id) else { return }
      costBytes -= copy.costBytes
      if newest[copy.place] == id { newest[copy.place] = nil }
    }
  }

  private let bytesMax: Int
  private let bytes: @Sendable (Place, Content) -> Int
  private let state = Mutex(State())

  /// `bytes` says how long a content is.
  init(bytesMax: Int = 64 << 20, bytes: @escaping @Sendable (Place, Content) -> Int) {
    self.bytesMax = bytesMax
    self.bytes = bytes
  }

  /// What they take together.
  var costBytes: Int { state.withLock { $0.costBytes } }

  /// Keeps a content for one that shows it.
  func add(_ content: Content, of place: Place) -> ID {
    // With what is needed to keep it.
    let costBytes = bytes(place, content) + 1024
    return state.withLock { state in
      let now = state.tick()
      if let id = state.newest[place], state.copies[id]?.content == content {
        state.copies[id]?.users += 1
        state.copies[id]?.lastUsed = now
        return id
      }
      state.copies[now] = Copy(place: place, content: content, users: 1, lastUsed: now, costBytes: costBytes)
      state.newest[place] = now
      state.costBytes += costBytes
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

  /// The content; nil where it was let go of.
  func content(_ id: ID) -> Content? {
    state.withLock { state in
      let now = state.tick()
      state.copies[id]?.lastUsed = now
      return state.copies[id]?.content
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

/// The bytes that open virtual files show, by their paths.
typealias VirtualCopies = SharedCopies<[UInt8], [UInt8]>

extension VirtualCopies {
  convenience init(bytesMax: Int = 64 << 20) {
    self.init(bytesMax: bytesMax) { path, bytes in path.count + bytes.count }
  }
}

/// The listings that open folders show.
typealias ListingCopies = SharedCopies<NodeID, DirectoryListing>

extension ListingCopies {
  convenience init(bytesMax: Int = 64 << 20) {
    self.init(bytesMax: bytesMax) { _, listing in listing.byteCount }
  }
}
