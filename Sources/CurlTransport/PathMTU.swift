/// Recognises a way to a server that swallows full packets while small ones arrive: something on it drops what is too long for its next
/// link, and its word of that does not come back (RFC 2923, section 2.1). Pure: the loop tells it how connections stand.
///
/// A network that goes away in the middle of a request looks the same, once. So it takes two requests, of which the second one was begun
/// after the first had ended, and had its small packets acknowledged.
struct PathMTU {
  /// How the connection of a request stands.
  struct Look: Hashable {
    /// The longest segment that it sends.
    var segmentBytes: Int
    /// What the peer has acknowledged since the request was begun.
    var acknowledged: Int
    /// What it has not.
    var unacknowledged: Int
    /// How often in a row the first segment of that was sent again.
    var retransmissions: Int
    /// The request has made the connection: its handshake went through.
    var isNewConnection: Bool

    /// Small packets were taken, and a full one was not, however often it came.
    var showsHole: Bool {
      segmentBytes > PathMTU.segmentBytesLeast && acknowledged < segmentBytes && unacknowledged >= segmentBytes
        && retransmissions >= PathMTU.retransmissionsMin && (acknowledged > 0 || isNewConnection)
    }

    /// Full packets arrive.
    var showsWay: Bool { acknowledged >= 2 * segmentBytes }
  }

  /// Every network takes packets of 1280 bytes with IPv6 (RFC 8200, section 5): what is shorter is lost for another reason.
  private static let segmentBytesLeast = 1200
  /// About two seconds, on a line with 100 ms.
  private static let retransmissionsMin = 3

  /// When the first request ended that had met it.
  private var metAt: ContinuousClock.Instant?

  /// A request has come to no good end, at which its connection stood so. True where full packets are swallowed.
  mutating func failed(_ look: Look, begunAt: ContinuousClock.Instant, at now: ContinuousClock.Instant) -> Bool {
    guard look.showsHole else { return false }
    guard let metAt else {
      self.metAt = now
      return false
    }
    return begunAt > metAt
  }

  /// A request is under way whose connection stands so.
  mutating func saw(_ look: Look) { if look.showsWay { metAt = nil } }

  /// What is added to the message of a request that has failed so.
  static func words(_ look: Look) -> String {
    "; packets with \(look.segmentBytes) bytes do not arrive there while small ones do: something on the way drops them without a word "
      + "(a black hole of path MTU discovery). Let it send ICMP “fragmentation needed” and ICMPv6 “packet too big”, or let this machine "
      + "send shorter packets: “ip link set dev DEVICE mtu 1280”, or “sysctl net.ipv4.tcp_mtu_probing=1”"
  }
}
