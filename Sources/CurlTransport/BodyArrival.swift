import CCurl

/// How much of a request's body the peer's TCP has acknowledged. What libcurl counts was handed to the socket, whose buffer can be a
/// minute of a slow line, and it counts in steps of 128 KiB.
///
/// Used on the curl thread.
struct BodyArrival {
  /// Of the body, and never less than before.
  private(set) var bytes = 0
  private var socket: Int32 = -1
  /// What the peer had acknowledged on the connection when the request began.
  private var base: Int64 = -1

  /// A request begins on the connection with this local port, from its first byte.
  mutating func begin(localPort: Int32) {
    bytes = 0
    socket = uploadfs_socket_of_port(localPort)
    base = uploadfs_acknowledged_bytes(socket)
  }

  /// Looks at it.
  /// - Parameters:
  ///   - handed: What libcurl has handed to the socket of the body.
  ///   - headBytes: How long the request's head is.
  ///   - sharers: Requests that may be under way on the connection, this one included.
  mutating func measure(handed: Int, bodyBytes: Int, headBytes: Int, sharers: Int) {
    let now = uploadfs_acknowledged_bytes(socket)
    if now < 0 || base < 0 {
      // Neither a failure of TCP, as of QUIC, nor one that matters.
      bytes = max(bytes, handed)
    } else if sharers > 1 {
      bytes = max(bytes, handed - Int(uploadfs_unacknowledged_bytes(socket)) / sharers)
    } else {
      // Some of what is being handed may have arrived: libcurl counts a piece when all of it is gone.
      bytes = max(bytes, min(bodyBytes, Int(clamping: now - base) - headBytes))
    }
  }
}
