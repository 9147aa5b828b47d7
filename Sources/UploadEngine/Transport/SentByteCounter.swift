import Synchronization

/// Bytes of one request's body that the network took so far: where the transport can tell, those that the peer's TCP has acknowledged, and
/// not what waits in a buffer of this machine. Written by the transport's thread, read by any.
public final class SentByteCounter: Sendable {
  private let count = Atomic<UInt64>(0)

  /// Starts at zero.
  public init() {}

  /// Sets the count; the transport calls this while it sends.
  public func set(_ bytes: UInt64) { count.store(bytes, ordering: .relaxed) }

  /// The count.
  public var value: UInt64 { count.load(ordering: .relaxed) }
}
