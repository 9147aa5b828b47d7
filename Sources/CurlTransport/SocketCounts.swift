import CCurl

/// What the kernel counts of a TCP connection's packets, at a moment.
struct SocketCounts: Hashable {
  /// Segments with data, sent for the first time or again. Wraps around.
  var segments: UInt32
  /// Segments that were lost and sent again. May fall when one turns out to have arrived.
  var lost: UInt32
  /// The smoothed round-trip time.
  var roundTrip: Duration
  /// The least round-trip time that was seen.
  var roundTripLeast: Duration
  /// The longest segment that is sent.
  var segmentBytes: UInt32 = 0
  /// How often in a row the first unacknowledged segment was sent again because nothing came.
  var retransmissions: UInt32 = 0
  /// How fast the latest segments arrived.
  var deliveryBytesPerSecond: UInt64 = 0

  /// Of a socket; nil where it is closed, or none of TCP.
  init?(of socket: Int32) {
    var counts = uploadfs_socket_counts()
    guard uploadfs_socket_counts(socket, &counts) != 0 else { return nil }
    self.init(
      segments: counts.segments, lost: counts.lost, roundTrip: .microseconds(counts.round_trip_microseconds),
      roundTripLeast: .microseconds(counts.round_trip_least_microseconds))
    (segmentBytes, retransmissions) = (counts.segment_bytes, counts.retransmissions)
    deliveryBytesPerSecond = counts.delivery_bytes_per_second
  }

  /// Segments that arrive in the least round-trip time.
  var segmentsPerRoundTrip: Double {
    guard segmentBytes > 0 else { return 0 }
    return Double(deliveryBytesPerSecond) * (roundTripLeast / .seconds(1)) / Double(segmentBytes)
  }

  init(segments: UInt32, lost: UInt32, roundTrip: Duration, roundTripLeast: Duration) {
    self.segments = segments
    self.lost = lost
    self.roundTrip = roundTrip
    self.roundTripLeast = roundTripLeast
  }
}
