import CCurl
import Glibc
import Testing
import TransferModel

@testable import CurlTransport

@Suite("Transfers after a change of the network")
struct PathMovesTests {
  private let start = ContinuousClock.now

  private func look(_ state: PathState, moved: Int, roundTrip: Duration = .milliseconds(20)) -> PathMoves.Look {
    PathMoves.Look(state: state, moved: moved, roundTrip: roundTrip)
  }

  private func id(_ number: UInt64) -> HTTPRequestID { HTTPRequestID(number) }

  @Test("What has lost its address ends at once, what has kept its way is left alone")
  func goneAddress_endsAtOnce() {
    var moves = PathMoves()
    let ended = moves.changed(at: start, [id(1): look(.gone, moved: 5), id(2): look(.same, moved: 5)])
    #expect(ended == [id(1)] && moves.nextLook == nil)
  }

  @Test("What stands still on a way that has moved ends after its patience, and no sooner")
  func standingStill_endsAfterPatience() throws {
    var moves = PathMoves()
    #expect(moves.changed(at: start, [id(1): look(.moved, moved: 5)]).isEmpty)
    #expect(moves.nextLook == start + PathMoves.patienceMin)
    let early = moves.standingStill(
      at: start + PathMoves.patienceMin - .milliseconds(1), [id(1): look(.moved, moved: 5)])
    let due = moves.standingStill(at: start + PathMoves.patienceMin, [id(1): look(.moved, moved: 5)])
    #expect(early.isEmpty && due == [id(1)] && moves.nextLook == nil)
  }

  @Test("What still moves goes on over the old way, for as long as it does")
  func moving_goesOn() {
    var moves = PathMoves()
    var now = start
    _ = moves.changed(at: now, [id(1): look(.moved, moved: 0)])
    for step in 1...10 {
      now += PathMoves.patienceMin
      #expect(moves.standingStill(at: now, [id(1): look(.moved, moved: step)]).isEmpty)
    }
    now += PathMoves.patienceMin
    #expect(moves.standingStill(at: now, [id(1): look(.moved, moved: 10)]) == [id(1)])
  }

  @Test("A long line has longer, and none has for ever", arguments: [(200, 300), (800, 1200), (5000, 2000)])
  func patience_followsRoundTrip(roundTripMilliseconds: Int, patienceMilliseconds: Int) {
    var moves = PathMoves()
    _ = moves.changed(at: start, [id(1): look(.moved, moved: 0, roundTrip: .milliseconds(roundTripMilliseconds))])
    #expect(moves.nextLook == start + .milliseconds(patienceMilliseconds))
  }

  @Test("Where nothing is left to be acknowledged the server has longer for its answer")
  func silence_isNoProof() {
    var moves = PathMoves()
    var waiting = look(.moved, moved: 5)
    waiting.hasUnacknowledged = false
    _ = moves.changed(at: start, [id(1): waiting])
    #expect(moves.nextLook == start + PathMoves.patienceMax)
  }

  @Test("A way that comes back, and a transfer that has ended, are suspected no longer")
  func recovered_isForgotten() {
    var moves = PathMoves()
    _ = moves.changed(at: start, [id(1): look(.moved, moved: 0), id(2): look(.moved, moved: 0)])
    let ended = moves.standingStill(at: start + .seconds(5), [id(1): look(.same, moved: 0)])
    #expect(ended.isEmpty && moves.nextLook == nil)
  }

  @Test("A second change gives no more time")
  func secondChange_keepsTime() {
    var moves = PathMoves()
    _ = moves.changed(at: start, [id(1): look(.moved, moved: 0)])
    _ = moves.changed(at: start + .milliseconds(200), [id(1): look(.moved, moved: 0)])
    #expect(moves.nextLook == start + PathMoves.patienceMin)
  }

  @Test("The kernel says that a connection on this machine has its way, and that what is no socket has none to lose")
  func kernel_knowsTheWay() throws {
    let (listener, client) = try connection(from: loopback(1))
    defer {
      close(listener)
      close(client)
    }
    #expect(PathState(of: client) == .same && PathState(of: -1) == .same && PathState(of: listener) == .same)
  }

  @Test("A way that has moved is new once, until its socket's number is another connection's")
  func movedWay_isNewOnce() throws {
    // The kernel would connect to 127.0.0.1 from there.
    let (listener, client) = try connection(from: loopback(2))
    defer {
      close(listener)
      close(client)
    }
    #expect(PathState(of: client) == .moved)
    for _ in 1...2 {
      uploadfs_note_socket(client)
      #expect(uploadfs_moves_of_ways() == UPLOADFS_MOVES_NEW)
      #expect(uploadfs_moves_of_ways() == UPLOADFS_MOVES_KNOWN)
    }
  }

  private func loopback(_ number: UInt32) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0000 + number).bigEndian
    return address
  }

  /// One to 127.0.0.1.
  private func connection(from own: sockaddr_in) throws -> (listener: Int32, client: Int32) {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var own = own
    var peer = loopback(1)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafePointer(to: &own) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(client, $0, length) == 0 }
    }
    let isConnected = withUnsafeMutablePointer(to: &peer) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { peer in
        bind(listener, peer, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, peer, &length) == 0
          && connect(client, peer, length) == 0
      }
    }
    try #require(isBound && isConnected)
    return (listener, client)
  }
}
