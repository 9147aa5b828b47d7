/// Recognises a way to a server that swallows full packets while small ones arrive, and says how short packets have to be: something on
/// it drops what is too long for its next link, and its word of that does not come back (RFC 2923, section 2.1). Pure: the loop tells it
/// how connections stand.
///
/// A network that goes away in the middle of a request looks the same, once. So it takes two requests, of which the second one was begun
/// after the first one had shown it, and had its small packets acknowledged.
///
/// The kernel finds the way around by itself where `net.ipv4.tcp_mtu_probing` is 1, which is not its default.
struct PathMTU {
  /// How the connection of a request stands.
  struct Look: Hashable {
    /// When the request was begun on it.
    var begunAt: ContinuousClock.Instant
    /// The longest segment that it sends.
    var segmentBytes: Int
    /// What the peer has acknowledged since.
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

  /// What segments are bounded to, one after the other: what each path of IPv6 carries (1280 bytes, RFC 8200, section 5) without the
  /// heads of IP and TCP, and what each host of IPv4 takes (576 bytes, RFC 9293, section 3.7.1).
  static let bounds = [1_220, 536]
  /// What is shorter is lost for another reason.
  private static let segmentBytesLeast = 536
  /// About two seconds, on a line with 100 ms.
  private static let retransmissionsMin = 3

  /// When the first request was seen that had met it.
  private var metAt: ContinuousClock.Instant?
  private var boundIndex: Int?

  /// The most that a segment of a new connection may carry; nil for what the kernel says.
  var segmentBytesMax: Int? { boundIndex.map { Self.bounds[$0] } }

  /// A request is under way whose connection stands so. True when new connections get shorter segments from now on.
  mutating func take(_ look: Look, at now: ContinuousClock.Instant) -> Bool {
    // A connection that was made before the bound says nothing about it.
    guard look.segmentBytes <= segmentBytesMax ?? .max else { return false }
    guard look.showsHole else {
      if look.showsWay { metAt = nil }
      return false
    }
    guard let metAt else {
      self.metAt = now
      return false
    }
    let next = boundIndex.map { $0 + 1 } ?? 0
    guard look.begunAt > metAt, next < Self.bounds.count else { return false }
    boundIndex = next
    self.metAt = nil
    return true
  }

  /// What the failure of such a request says.
  static func words(_ look: Look, host: String, segmentBytesMax: Int) -> String {
    "packets with \(look.segmentBytes) bytes do not arrive at \(host) while small ones do: something on the way drops them without a word "
      + "(a black hole of path MTU discovery). New connections send at most \(segmentBytesMax) bytes in a packet. Let it send ICMP "
      + "“fragmentation needed” and ICMPv6 “packet too big”, or let this machine send shorter packets: “ip link set dev DEVICE mtu 1280”, "
      + "or “sysctl net.ipv4.tcp_mtu_probing=1”"
  }
}
