import CCurl

/// How much of a request's body the peer's TCP has acknowledged. What libcurl counts was handed to the socket, whose buffer can be a
/// minute of a slow line, and it counts in steps of 128 KiB.
///
/// Used on the curl thread.
struct BodyArrival {
  /// Of the body, and never less than before.
  private(set) var bytes = 0
  /// That of the connection; −1 where it is not known.
  private(set) var socket: Int32 = -1
  /// What the peer had acknowledged on the connection when the request began.
  private var base: Int64 = -1
  /// Other requests are, or were, in flight on the connection.
  private var wasShared = false

  /// libcurl gives the socket no more of a body at once than that, and counts a piece when all of it is gone.
  private static let pieceBytes = 128 << 10

  /// What the peer's TCP has acknowledged since the request began, of whatever; 0 where that is not known.
  var acknowledgedBytes: Int { max(0, Int(clamping: uploadfs_acknowledged_bytes(socket) - base)) }

  /// A request begins on the connection between these ports, from its first byte.
  mutating func begin(localPort: Int32, peerPort: Int32) {
    begin(on: uploadfs_socket_between(localPort, peerPort))
  }

  /// Likewise on this socket; −1 where it is not known.
  mutating func begin(on socket: Int32) {
    self = BodyArrival()
    self.socket = socket
    base = uploadfs_acknowledged_bytes(socket)
  }

  /// Samples it.
  /// - Parameters:
  ///   - handed: What libcurl has handed to the socket of the body.
  ///   - isShared: Other requests may be in flight on the connection.
  mutating func measure(handed: Int, bodyBytes: Int, isShared: Bool) {
    wasShared = wasShared || isShared
    let acknowledged = uploadfs_acknowledged_bytes(socket)
    guard acknowledged >= 0, base >= 0 else {
      // Not TCP, or the connection is gone.
      bytes = max(bytes, handed)
      return
    }
    let waiting = Int(uploadfs_unacknowledged_bytes(socket))
    // All of it is there once nothing waits any more: how long the head is, and how much encryption adds, is not known.
    if handed >= bodyBytes, waiting == 0 { return bytes = max(bytes, bodyBytes) }
    var arrived = max(0, handed - waiting)
    if !wasShared {
      arrived = max(arrived, min(Int(clamping: acknowledged - base), handed + Self.pieceBytes))
    }
    bytes = max(bytes, min(arrived, max(0, bodyBytes - 1)))
  }
}
