/// A line that all connections share: what they send passes one bottleneck, and waits before it.
///
/// A model of flows, and none of packets. The window of a connection doubles with each round trip as long as the line
/// carries what it sends. Connections that fill the queue get equal shares, and nothing is lost.
struct Line: Sendable {
  /// One direction of a connection.
  private struct Connection {
    var windowBytes = Line.firstWindowBytes
    /// Bytes that the connection has to send now.
    var leftBytes = 0.0
    var passedBytes = 0.0
    /// Bytes that its far end has confirmed by now.
    var confirmedBytes = 0.0
  }

  /// Ten packets (RFC 6928).
  static let firstWindowBytes = 14_600.0
  /// Growth by two after each round trip: the natural logarithm of 2.
  private static let growth = 0.693

  let kind: LineKind
  private var connections: [Connection] = []

  init(_ kind: LineKind) { self.kind = kind }

  /// The time step of the simulation.
  var step: Duration { min(max(kind.roundTrip / 4, .milliseconds(2)), .milliseconds(10)) }

  /// Some bytes have not passed yet.
  var isBusy: Bool { connections.contains { $0.leftBytes > 0 } }

  /// How long what is sent now waits before the bottleneck.
  var waitSeconds: Double {
    let queueSeconds = kind.queueBytes / kind.bytesPerSecond
    guard kind.otherFlows == 0 else { return queueSeconds }
    return min(queueSeconds, max(0, windowBytes / kind.bytesPerSecond - kind.roundTripSeconds))
  }

  /// The windows of all connections that have something to send.
  private var windowBytes: Double { connections.reduce(0) { $0 + ($1.leftBytes > 0 ? $1.windowBytes : 0) } }

  /// One more connection, by its number.
  mutating func connect() -> Int {
    connections.append(Connection())
    return connections.count - 1
  }

  /// So many bytes are sent over a connection that has nothing else to send.
  mutating func send(_ byteCount: Int, over number: Int) {
    connections[number].leftBytes = Double(byteCount)
    connections[number].passedBytes = 0
    connections[number].confirmedBytes = 0
  }

  /// The connection is gone, with all that has not passed.
  mutating func breakOff(_ number: Int) { connections[number].leftBytes = 0 }

  /// What has passed the bottleneck of what is sent over a connection.
  func passed(over number: Int) -> Int { Int(connections[number].passedBytes.rounded()) }

  /// The confirmed part of that: it lags behind by a round trip.
  func confirmed(over number: Int) -> Int { Int(connections[number].confirmedBytes.rounded(.down)) }

  /// Time passes. Returns the connections over which the last byte has passed in it.
  mutating func pass(seconds: Double) -> [Int] {
    let trip = kind.roundTripSeconds + waitSeconds
    let busy = connections.indices.filter { connections[$0].leftBytes > 0 }
    var (rest, flows) = (kind.bytesPerSecond, busy.count + kind.otherFlows)
    var done: [Int] = []
    // A connection that needs less than its share leaves the rest to the others.
    for number in busy.sorted(by: { connections[$0].windowBytes < connections[$1].windowBytes }) {
      let wanted = connections[number].windowBytes / trip
      let rate = min(wanted, rest / Double(flows))
      rest -= rate
      flows -= 1
      if rate >= wanted * 0.999 { connections[number].windowBytes *= 1 + Self.growth * seconds / trip }
      move(number, rate, seconds)
      if connections[number].leftBytes <= 0 { done.append(number) }
    }
    if kind.otherFlows == 0 { shareQueue(among: busy, seconds / trip) }
    return done.sorted()
  }

  private mutating func move(_ number: Int, _ rate: Double, _ seconds: Double) {
    let bytes = min(connections[number].leftBytes, rate * seconds)
    connections[number].leftBytes -= bytes
    connections[number].passedBytes += bytes
    let onItsWay = rate * kind.roundTripSeconds
    connections[number].confirmedBytes = max(
      connections[number].confirmedBytes, connections[number].passedBytes - onItsWay)
  }

  /// A full queue takes no more: windows shrink to the available room, and towards each other.
  private mutating func shareQueue(among busy: [Int], _ trips: Double) {
    let most = kind.bytesPerSecond * kind.roundTripSeconds + kind.queueBytes
    let all = busy.reduce(0) { $0 + connections[$1].windowBytes }
    guard all > most, !busy.isEmpty else { return }
    let share = most / Double(busy.count)
    for number in busy {
      let window = connections[number].windowBytes * most / all
      connections[number].windowBytes = window + (share - window) * min(1, trips / 4)
    }
  }

  /// The time that so many connections that always have something to send need for so many bytes together.
  static func seconds(for byteCount: Int, over streams: Int, of kind: LineKind) -> Double {
    var line = Line(kind)
    let numbers = (0..<max(1, streams)).map { _ in line.connect() }
    for number in numbers { line.send(2 * byteCount, over: number) }
    let step = Double(line.step.microseconds) / 1_000_000
    var seconds = 0.0
    while numbers.reduce(0, { $0 + line.passed(over: $1) }) < byteCount {
      _ = line.pass(seconds: step)
      seconds += step
    }
    return seconds
  }
}
