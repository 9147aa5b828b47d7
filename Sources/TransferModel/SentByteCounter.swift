import Synchronization

/// Bytes of one request's body that the network took so far: where the transport can tell, those that the peer's TCP has acknowledged, and
/// not what waits in a buffer of this machine. Written by the transport's thread, read by any.
public final class SentByteCounter: Sendable {
  private let count = Atomic<UInt64>(0)
  private let handed = Atomic<UInt64>(.max)

  /// Starts at zero.
  public init() {}

  /// Sets the count; the transport calls this while it sends.
  public func set(_ bytes: UInt64) { count.store(bytes, ordering: .relaxed) }

  /// The most that can have left this process by now, also of tries that the transport has made by itself. The transport calls this at the
  /// beginning, while it sends, and at the end.
  public func handOver(_ bytes: UInt64) { handed.store(bytes, ordering: .relaxed) }

  /// What no server can have more of; nil where no transport has said it.
  public var handedOverMax: UInt64? {
    let bytes = handed.load(ordering: .relaxed)
    return bytes == .max ? nil : bytes
  }

  /// The count.
  public var value: UInt64 { count.load(ordering: .relaxed) }
}
