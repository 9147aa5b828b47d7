import Glibc
import NIOCore
import Synchronization

/// Counts the connections of each peer, so that none takes those of all others. A peer is an IPv4 address, or the /64 of
/// an IPv6 address: a single machine has all addresses of one.
final class PeerConnections: Sendable {
  /// Whose connections are counted together.
  struct Peer: Hashable, Sendable {
    fileprivate var network: [UInt8]
  }

  private let connectionsMax: Int
  private let open = Mutex<[Peer: Int]>([:])

  init(connectionsMax: Int) {
    self.connectionsMax = connectionsMax
  }

  /// Counts a connection, until ``leave(_:)``; nil when its peer has too many.
  func enter(_ address: SocketAddress?) -> Peer? {
    let peer = Peer(address)
    return open.withLock { open in
      guard open[peer, default: 0] < connectionsMax else { return nil }
      open[peer, default: 0] += 1
      return peer
    }
  }

  func leave(_ peer: Peer) {
    open.withLock { open in
      let left = (open[peer] ?? 1) - 1
      open[peer] = left > 0 ? left : nil
    }
  }
}

extension PeerConnections.Peer {
  init(_ address: SocketAddress?) {
    let text = address?.ipAddress ?? ""
    var bytes = [UInt8](repeating: 0, count: 16)
    if inet_pton(AF_INET, text, &bytes) == 1 {
      network = Array(bytes.prefix(4))
    } else if inet_pton(AF_INET6, text, &bytes) == 1 {
      // An IPv4 address in IPv6's clothes (RFC 4291, section 2.5.5.2) is the one that it is.
      let isMapped = bytes.prefix(12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
      network = Array(isMapped ? bytes.suffix(4) : bytes.prefix(8))
    } else {
      network = []
    }
  }
}
