/// How long the stages took by which a connection was opened and proven, in whole microseconds: each file has them.
public struct ConnectionStages: Hashable, Sendable {
  private var namesMicroseconds: UInt32
  private var connectMicroseconds: UInt32
  private var tlsMicroseconds: UInt32
  private var answerMicroseconds: UInt32

  /// What was measured; more than an hour counts as that.
  public init(names: Duration, connect: Duration, tls: Duration, answer: Duration) {
    namesMicroseconds = names.clampedMicroseconds
    connectMicroseconds = connect.clampedMicroseconds
    tlsMicroseconds = tls.clampedMicroseconds
    answerMicroseconds = answer.clampedMicroseconds
  }

  /// Until the server's addresses were known; zero where they were.
  public var names: Duration { .microseconds(namesMicroseconds) }
  /// From then until TCP was connected.
  public var connect: Duration { .microseconds(connectMicroseconds) }
  /// From then until TLS was established; zero without TLS.
  public var tls: Duration { .microseconds(tlsMicroseconds) }
  /// From then to the first byte of the answer.
  public var answer: Duration { .microseconds(answerMicroseconds) }
}

extension Duration {
  /// In whole microseconds, between zero and an hour.
  package var clampedMicroseconds: UInt32 {
    let bounded = min(max(self, .zero), .seconds(3600))
    let (seconds, attoseconds) = bounded.components
    return UInt32(clamping: seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
  }
}
