import Testing

@testable import CurlTransport

@Suite("Ways that swallow full packets")
struct PathMTUTests {
  private static let start = ContinuousClock.now
  private var start: ContinuousClock.Instant { Self.start }
  private let hole = PathMTU.Look(
    begunAt: Self.start, segmentBytes: 1448, acknowledged: 522, unacknowledged: 1 << 20, retransmissions: 4,
    isNewConnection: true)

  private func hole(begun seconds: Int, segmentBytes: Int = 1448) -> PathMTU.Look {
    var look = hole
    look.begunAt = start + .seconds(seconds)
    look.segmentBytes = segmentBytes
    return look
  }

  @Test("The second request that was begun after the first one had shown it bounds segments, and none beside that")
  func twoRequests_showIt() {
    var path = PathMTU()
    let said = [
      path.take(hole, at: start + .seconds(2)),
      path.take(hole, at: start + .seconds(2)),
      path.take(hole(begun: 1), at: start + .seconds(4)),
      path.take(hole(begun: 6), at: start + .seconds(8)),
    ]
    #expect(said == [false, false, false, true] && path.segmentBytesMax == 1220)
  }

  @Test("Where full packets arrive meanwhile, it was something else")
  func fullPackets_denyIt() {
    var path = PathMTU()
    var other = hole
    other.acknowledged = 2 * 1448
    let said = [
      path.take(hole, at: start + .seconds(2)),
      path.take(other, at: start + .seconds(3)),
      path.take(hole(begun: 6), at: start + .seconds(8)),
    ]
    #expect(said == [false, false, false] && path.segmentBytesMax == nil)
  }

  @Test("Where shorter ones do not arrive either, they are bounded to what each host takes, and no further")
  func shorterPackets_areBoundedOnceMore() {
    var path = PathMTU()
    let said = [
      path.take(hole, at: start + .seconds(2)),
      path.take(hole(begun: 3), at: start + .seconds(5)),
      // Of connections from before.
      path.take(hole(begun: 3), at: start + .seconds(5)),
      path.take(hole(begun: 6, segmentBytes: 1208), at: start + .seconds(8)),
      path.take(hole(begun: 9, segmentBytes: 1208), at: start + .seconds(11)),
      path.take(hole(begun: 12, segmentBytes: 524), at: start + .seconds(14)),
      path.take(hole(begun: 15, segmentBytes: 524), at: start + .seconds(17)),
    ]
    #expect(said == [false, true, false, false, true, false, false] && path.segmentBytesMax == 536)
  }

  @Test("What a network that is gone, slow or lossy shows is none")
  func others() {
    let changes: [(inout PathMTU.Look) -> Void] = [
      { $0.acknowledged = 1448 }, { $0.unacknowledged = 300 }, { $0.retransmissions = 2 }, { $0.segmentBytes = 524 },
    ]
    #expect(hole.showsHole)
    for change in changes {
      var look = hole
      change(&look)
      #expect(!look.showsHole)
    }
  }

  @Test("Without a new connection, small packets of the request itself must have arrived")
  func oldConnection() {
    var look = hole
    look.isNewConnection = false
    #expect(look.showsHole)
    look.acknowledged = 0
    #expect(!look.showsHole)
  }
}
