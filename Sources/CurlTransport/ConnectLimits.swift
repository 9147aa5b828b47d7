import TransferModel

/// How long a connection may take to be made (``UploadConstants/connectionTimeout``), by what the server's latest
/// handshakes took. Pure.
///
/// On a long line whose queue is full, what goes there and back takes seconds, and TCP and TLS do so twice at least: 5 s would never
/// be enough. Where nothing answers they stay 5 s, so that a dead address is found as soon as before.
struct ConnectLimits {
  private static let most: Duration = .seconds(15)
  /// Those of TCP and TLS, and as much again: one of them may be lost, and come again after a second.
  private static let handshakes = 4

  /// Of TCP, by the server: few.
  private var handshakeTimes: [String: Duration] = [:]

  /// A server has taken a connection so long after it was asked.
  mutating func noteHandshake(_ time: Duration, with origin: String) {
    if time > .zero { handshakeTimes[origin] = time }
  }

  /// The limit of a request to a server. One that a setting gives stays as it is.
  func limit(_ standard: Duration, for origin: String) -> Duration {
    guard standard == UploadConstants.connectionTimeout, let time = handshakeTimes[origin] else { return standard }
    return max(standard, min(Self.most, time * Self.handshakes))
  }
}
