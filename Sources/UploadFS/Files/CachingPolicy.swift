/// The path of the bytes of one file's handles.
///
/// - Through the kernel's page cache: needed where a shared mapping may be made, which a direct handle refuses on libfuse
///   before 3.17.
/// - Directly to the daemon: writers that only write gain, because there is no second copy of the data in memory. Both at
///   once on one file would let a cached page go stale behind a direct write: kernels before 6.6 do not invalidate it,
///   later ones leave a window. So the first to come decides.
/// - Past the daemon (passthrough): the kernel reads and writes the spool's file itself. It refuses that beside cached handles,
///   and as long as one handle passes it lets only such handles open the file; and it takes the daemon's answers in any
///   order. So a file passes from the first open to the last release or not at all, opens in flight included.
struct CachingPolicy: Hashable, Sendable {
  private(set) var cachedHandles: Int32 = 0
  private(set) var directWriters: Int32 = 0
  /// Handles past the daemon, whether or not their reads and writes come to it all the same.
  private(set) var passthroughHandles: Int32 = 0
  /// Mappings of the spool's file that outlive their handle. Cached pages would go stale behind them.
  private(set) var mappingsLeft: Int32 = 0
  /// Handles that come to the daemon, cached or direct.
  private(set) var servedHandles: Int32 = 0
  /// Something was written past the cache since the kernel last dropped its pages of this file.
  private(set) var mayHoldStalePages = false

  /// The path of one handle's bytes.
  enum Route: Hashable, Sendable {
    case cached
    case direct
    /// Reads, writes and mappings go to the spool's file.
    case passthrough
    /// As the kernel asks for it beside handles that pass, but writes come to the daemon, which so knows what is written. Only
    /// for handles that do not read: what the kernel copies out of such a handle by itself (copy_file_range(2), sendfile(2),
    /// splice(2)) would come from pages of its own, which go stale.
    case passthroughDirect

    var isPassthrough: Bool { self == .passthrough || self == .passthroughDirect }
    /// The kernel keeps no pages of what is read or written by it.
    var isDirect: Bool { self == .direct || self == .passthroughDirect }
  }

  /// What a handle is wanted for.
  struct Opening: Hashable, Sendable {
    var reads: Bool
    var writes: Bool
    /// Files with set-ID bits are written through the cache, or past the daemon: the kernel takes the bits away before such
    /// a write of an ordinary user, but leaves it to the daemon on a direct one, which libfuse does not tell.
    var hasSetIDBits = false
    /// The kernel may be given the spool's file.
    var mayPassThrough = false
    /// The daemon does not have to know which parts of the file are written, and when.
    var mayWriteUnseen = false
  }

  /// How one handle is to be opened.
  struct Choice: Hashable, Sendable {
    let opening: Opening
    let route: Route
    /// The kernel may keep the pages that it has of this file.
    var keepsCache = false

    /// The file may change through this handle without the daemon's knowledge.
    var writesUnseen: Bool { opening.writes && route == .passthrough }
    /// A mapping that can be written may outlive the handle: of a passing handle the kernel maps the spool's file.
    var mayLeaveMapping: Bool { opening.writes && opening.reads && route.isPassthrough }
    /// Counts as a writer past the cache.
    fileprivate var isDirectWriter: Bool { opening.writes && route == .direct }
  }

  /// Decides for a new handle, which ``opened(_:)`` then counts.
  func choice(for opening: Opening) -> Choice {
    let route = route(for: opening)
    return Choice(opening: opening, route: route, keepsCache: route == .cached && !mayHoldStalePages)
  }

  private func route(for opening: Opening) -> Route {
    if passthroughHandles > 0 { return passthroughRoute(for: opening) }
    if servedHandles == 0, opening.mayPassThrough {
      // Pages that are cached now would go stale behind the mapping.
      if mappingsLeft > 0 { return passthroughRoute(for: opening) }
      if !opening.writes { return .passthrough }
      // A handle that only writes cannot be mapped, so that its release says that it has ended.
      if !opening.reads, opening.mayWriteUnseen { return .passthrough }
    }
    if opening.writes, !opening.reads {
      return cachedHandles > 0 || (opening.hasSetIDBits && directWriters == 0) ? .cached : .direct
    }
    return directWriters > 0 ? .direct : .cached
  }

  private func passthroughRoute(for opening: Opening) -> Route {
    let isOnlyWritten = opening.writes && !opening.reads
    return isOnlyWritten && !opening.hasSetIDBits && !opening.mayWriteUnseen ? .passthroughDirect : .passthrough
  }

  /// Counts a handle.
  mutating func opened(_ choice: Choice) {
    switch choice.route {
    case .cached:
      cachedHandles += 1
      mayHoldStalePages = false
    case .direct: break
    case .passthrough, .passthroughDirect: passthroughHandles += 1
    }
    if !choice.route.isPassthrough { servedHandles += 1 }
    if choice.isDirectWriter { directWriters += 1 }
    if choice.opening.writes, choice.route != .cached { mayHoldStalePages = true }
  }

  /// A descriptor of a direct writer was closed. RELEASE comes some time after close(2) has returned; a program that opens the
  /// file in between must not find a writer that is already gone. Should another descriptor of the same open go on
  /// writing, ``resumed()`` takes it back: pages that were cached meanwhile are dropped by the kernel at the direct write
  /// (6.6 and later), or when the daemon tells it.
  mutating func rested() { directWriters -= 1 }

  /// A writer that had rested writes again.
  mutating func resumed() {
    directWriters += 1
    mayHoldStalePages = true
  }

  /// A handle was released of which a mapping may be left, until ``mappingIsGone()``.
  mutating func leftMapping() { mappingsLeft += 1 }

  /// No mapping is left any more.
  mutating func mappingIsGone() {
    mappingsLeft -= 1
    mayHoldStalePages = true
  }

  /// A handle was released.
  mutating func closed(_ choice: Choice, isResting: Bool) {
    switch choice.route {
    case .cached: cachedHandles -= 1
    case .direct: break
    case .passthrough, .passthroughDirect: passthroughHandles -= 1
    }
    if !choice.route.isPassthrough { servedHandles -= 1 }
    if choice.isDirectWriter, !isResting { directWriters -= 1 }
  }
}
