/// What is left on the spool's filesystem before its reserve would be touched: a pure account between two looks at
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

  /// Bytes that may still be written before the reserve is touched.
  var spareBytes: UInt64 {
    let (spare, isShort) = availableBytes.subtractingReportingOverflow(reserveBytes)
    guard !isShort, spare > admittedBytes else { return 0 }
    return spare - admittedBytes
  }

  /// Admits all of `bytes` or nothing.
  mutating func admit(_ bytes: UInt64) -> Bool {
    guard bytes <= spareBytes else { return false }
    admittedBytes += bytes
    return true
  }
}
