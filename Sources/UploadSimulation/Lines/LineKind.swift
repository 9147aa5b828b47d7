/// The kind of a line: its rate, its round trip, the queue before its bottleneck, and how many other flows share it.
public struct LineKind: Hashable, Sendable {
  /// The most that waits before the bottleneck.
  public enum Queue: Hashable, Sendable {
    case packets(Int)
    case seconds(Double)
  }

  private static let packetBytes = 1500.0

  /// Its rate.
  public var kilobitsPerSecond: Int
  /// The round-trip time while nothing waits.
  public var roundTrip: Duration
  /// The queue before the bottleneck.
  public var queue: Queue
  /// Other flows on the line; each always has something to send.
  public var otherFlows: Int

  var bytesPerSecond: Double { Double(kilobitsPerSecond) * 125 }
  var roundTripSeconds: Double { Double(roundTrip.microseconds) / 1_000_000 }

  var queueBytes: Double {
    switch queue {
    case .packets(let count): Double(count) * Self.packetBytes
    case .seconds(let seconds): seconds * bytesPerSecond
    }
  }

  /// Every rate with every round trip and every queue, alone and beside another flow.
  public static let all: [LineKind] = [256, 1000, 5000, 20_000, 200_000].flatMap { rate in
    [20, 100, 600].flatMap { trip in
      [Queue.packets(20), .seconds(2)].flatMap { queue in
        [0, 1].map {
          LineKind(kilobitsPerSecond: rate, roundTrip: .milliseconds(trip), queue: queue, otherFlows: $0)
        }
      }
    }
  }
}

extension LineKind: CustomStringConvertible {
  /// The name in Benchmarks/lines.
  public var description: String {
    let rate = kilobitsPerSecond < 1000 ? "\(kilobitsPerSecond)kbit" : "\(kilobitsPerSecond / 1000)mbit"
    let waiting =
      switch queue {
      case .packets(let count): "\(count)p"
      case .seconds(let seconds): "\(Int(seconds))s"
      }
    return "\(rate)-\(roundTrip.microseconds / 1000)ms-\(waiting)\(otherFlows > 0 ? "-beside" : "")"
  }
}
