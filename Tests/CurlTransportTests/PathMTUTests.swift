import Testing

@testable import CurlTransport

@Suite("Ways that swallow full packets")
struct PathMTUTests {
  private let start = ContinuousClock.now
  private let hole = PathMTU.Look(
    segmentBytes: 1448, acknowledged: 522, unacknowledged: 1 << 20, retransmissions: 4, isNewConnection: true)

  @Test("The second request that was begun after the first one had failed shows it, and not those beside the first")
  func twoRequests_showIt() {
    var path = PathMTU()
    let said = [
      path.failed(hole, begunAt: start, at: start + .seconds(5)),
      path.failed(hole, begunAt: start, at: start + .seconds(5)),
      path.failed(hole, begunAt: start + .seconds(6), at: start + .seconds(11)),
    ]
    #expect(said == [false, false, true])
  }

  @Test("Where full packets arrive meanwhile, it was something else")
  func fullPackets_denyIt() {
    var path = PathMTU()
    var other = hole
    other.acknowledged = 2 * 1448
    _ = path.failed(hole, begunAt: start, at: start + .seconds(5))
    path.saw(other)
    let next = path.failed(hole, begunAt: start + .seconds(6), at: start + .seconds(11))
    #expect(!next)
  }

  @Test("What a network that is gone, slow or lossy shows is none")
  func others() {
    let changes: [(inout PathMTU.Look) -> Void] = [
      { $0.acknowledged = 1448 }, { $0.unacknowledged = 300 }, { $0.retransmissions = 2 }, { $0.segmentBytes = 1100 },
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
