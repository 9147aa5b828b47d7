/// How far the spool's filesystem is above its reserve, or below it. One of both is 0.
struct Headroom: Hashable, Sendable {
  /// So many bytes may be written before the reserve is touched.
  var spareBytes: UInt64 = 0
  /// So many bytes the reserve lacks already: other programs have written beside the spool.
  var lackingBytes: UInt64 = 0
}

/// What is left on the spool's filesystem before its reserve would be touched: a pure account between two checks of
/// statvfs(2).
struct SpaceLedger: Hashable, Sendable {
  /// Bytes that must stay free.
  let reserveBytes: UInt64
  /// A look is taken again after this many bytes have been admitted …
  static let refreshAfterBytes: UInt64 = 4 << 20
  /// … or this much time has passed.
  static let refreshAfterNanoseconds: UInt64 = 100_000_000

  private var availableBytes: UInt64 = 0
  private var admittedBytes: UInt64 = 0
  private var refreshedAt: UInt64?

  init(reserveBytes: UInt64) {
    self.reserveBytes = reserveBytes
  }

  /// Whether statvfs(2) has to be asked before the next decision.
  func isStale(at now: UInt64) -> Bool {
    guard let refreshedAt else { return true }
    return admittedBytes >= Self.refreshAfterBytes || now &- refreshedAt >= Self.refreshAfterNanoseconds
  }

  /// Takes in what statvfs(2) said.
  mutating func refresh(availableBytes: UInt64, at now: UInt64) {
    self.availableBytes = availableBytes
    admittedBytes = 0
    refreshedAt = now
  }

  /// What is left, or lacks.
  var headroom: Headroom {
    let (kept, isOver) = reserveBytes.addingReportingOverflow(admittedBytes)
    guard !isOver else { return Headroom(lackingBytes: .max - availableBytes) }
    return availableBytes >= kept
      ? Headroom(spareBytes: availableBytes - kept) : Headroom(lackingBytes: kept - availableBytes)
  }

  /// Bytes that may still be written before the reserve is touched.
  var spareBytes: UInt64 { headroom.spareBytes }

  /// Admits all of `bytes` or nothing.
  mutating func admit(_ bytes: UInt64) -> Bool {
    guard bytes <= spareBytes else { return false }
    admittedBytes += bytes
    return true
  }
}
