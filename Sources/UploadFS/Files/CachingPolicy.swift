/// Which handles of one file go past the kernel's page cache.
///
/// Writers that only write gain by direct I/O (no second copy of the data in memory); everybody else needs the cache,
/// because a shared mapping is possible only there. Both at once on one file would let a cached page go stale behind a
/// direct write (kernels before 6.6 do not invalidate it, later ones leave a window), so the first to come decides.
struct CachingPolicy: Hashable, Sendable {
  private(set) var cachedHandles = 0
  private(set) var directWriters = 0
  /// Something was written past the cache since the kernel last dropped its pages of this file.
  private(set) var mayHoldStalePages = false

  /// How one handle is to be opened.
  struct Choice: Hashable, Sendable {
    var isDirect: Bool
    /// The kernel may keep the pages that it has of this file.
    var keepsCache: Bool
  }

  /// Decides for a new handle and counts it.
  ///
  /// Files with set-ID bits are written through the cache: the kernel takes the bits away before such a write of an
  /// ordinary user, but leaves it to the daemon on a direct one, which libfuse does not tell.
  mutating func opened(reads: Bool, writes: Bool, hasSetIDBits: Bool = false) -> Choice {
    if writes, !reads {
      guard cachedHandles > 0 || (hasSetIDBits && directWriters == 0) else {
        directWriters += 1
        mayHoldStalePages = true
        return Choice(isDirect: true, keepsCache: false)
      }
    } else if directWriters > 0 {
      if writes { directWriters += 1 }
      return Choice(isDirect: true, keepsCache: false)
    }
    cachedHandles += 1
    let keeps = !mayHoldStalePages
    mayHoldStalePages = false
    return Choice(isDirect: false, keepsCache: keeps)
  }

  /// A descriptor of a direct writer was closed. RELEASE comes some time after close(2) has returned; whoever opens the
  /// file in between must not find a writer that is already gone. Should another descriptor of the same open go on
  /// writing, ``resumed()`` takes it back: pages that were cached meanwhile are dropped by the kernel at the direct write
  /// (6.6 and later), or when it next sees the changed time.
  mutating func rested() { directWriters -= 1 }

  /// A writer that had rested writes again.
  mutating func resumed() {
    directWriters += 1
    mayHoldStalePages = true
  }

  /// A handle was released.
  mutating func closed(isDirect: Bool, writes: Bool) {
    if !isDirect {
      cachedHandles -= 1
    } else if writes {
      directWriters -= 1
    }
  }
}
