import Testing

@testable import CurlTransport

@Suite("The loss of packets on the way to a server")
struct PathLossTests {
  /// A connection's counts after so many segments, of which every n-th was lost.
  private func counts(_ segments: Int, lost: Int, roundTrip: Int = 100, least: Int = 100) -> SocketCounts {
    SocketCounts(
      segments: UInt32(truncatingIfNeeded: segments), lost: UInt32(lost), roundTrip: .milliseconds(roundTrip),
      roundTripLeast: .milliseconds(least))
  }

  @Test("One packet of a hundred is noticed within the first thousand")
  func aLossyWay_isNoticedSoon() {
    var loss = PathLoss()
    var noticedAt: Int?
    for step in 1...10 where noticedAt == nil {
      let before = counts((step - 1) * 100, lost: step - 1)
      if loss.add(from: before, to: counts(step * 100, lost: step, roundTrip: 106)) { noticedAt = step * 100 }
    }
    #expect(noticedAt == 500 && loss.isLossy)
  }

  @Test("It is said once")
  func whatIsKnown_isNotSaidAgain() {
    var loss = PathLoss()
    let said = [
      loss.add(from: counts(0, lost: 0), to: counts(500, lost: 5)),
      loss.add(from: counts(500, lost: 5), to: counts(1000, lost: 10)),
      loss.add(from: counts(1000, lost: 10), to: counts(900_000, lost: 10)),
    ]
    #expect(said == [true, false, false] && loss.isLossy)
  }

  @Test("What is lost while the queue is full is not the line's loss", arguments: [(30, 20), (130, 100), (200, 100)])
  func fullQueue_isNoLoss(roundTrip: Int, least: Int) {
    var loss = PathLoss()
    for step in 1...200 {
      _ = loss.add(
        from: counts((step - 1) * 100, lost: step - 1, roundTrip: roundTrip, least: least),
        to: counts(step * 100, lost: step, roundTrip: roundTrip, least: least))
    }
    #expect(!loss.isLossy)
  }

  @Test("A short queue that loses packets is empty now and then, which says nothing")
  func shortQueue_isNoLoss() {
    var loss = PathLoss()
    for step in 1...500 {
      let roundTrip = step.isMultiple(of: 3) ? 61 : 70
      _ = loss.add(
        from: counts((step - 1) * 100, lost: step - 1, roundTrip: roundTrip, least: 60),
        to: counts(step * 100, lost: step, roundTrip: roundTrip, least: 60))
    }
    #expect(!loss.isLossy)
  }

  @Test("Losses that cost nothing stay as they are, however many come together")
  func rareLoss_isLeftAlone() {
    var loss = PathLoss()
    for step in 1...2000 {
      _ = loss.add(from: counts((step - 1) * 10_000, lost: step - 1), to: counts(step * 10_000, lost: step))
    }
    #expect(!loss.isLossy)
  }

  @Test("A few losses at the start are chance")
  func fewLosses_areChance() {
    var loss = PathLoss()
    _ = loss.add(from: counts(0, lost: 0), to: counts(20, lost: 4))
    #expect(!loss.isLossy)
  }

  @Test("Counts wrap around, and a loss that turns out to be none is taken back")
  func oddCounts_doNoHarm() {
    var loss = PathLoss()
    _ = loss.add(from: counts(Int(UInt32.max) - 50, lost: 3), to: counts(Int(UInt32.max) + 51, lost: 7))
    _ = loss.add(from: counts(50, lost: 7), to: counts(150, lost: 3))
    _ = loss.add(from: counts(150, lost: 3), to: counts(600, lost: 7))
    #expect(!loss.isLossy)
    _ = loss.add(from: counts(600, lost: 7), to: counts(700, lost: 8))
    #expect(loss.isLossy)
  }
}

@Suite("Congestion control")
struct CongestionControlTests {
  @Test("Which one a connection gets")
  func name_followsChoiceAndLoss() {
    #expect(CongestionControl.allCases.map { $0.name(isLossy: false) } == [nil, "bbr", "cubic", nil])
    #expect(CongestionControl.allCases.map { $0.name(isLossy: true) } == [nil, "bbr", "cubic", "bbr"])
  }

  @Test("The system's own can be found out, and is never refused")
  func systemsOwn_isKnown() throws {
    let name = try #require(CongestionControl.systemName)
    #expect(CongestionControl.refusal(of: name) == nil)
  }

  @Test("What the kernel lacks is refused, with what helps")
  func unknown_isRefused() throws {
    let refusal = try #require(CongestionControl.refusal(of: "nonesuch"))
    #expect(refusal == .unknown && refusal.words(for: "bbr").contains("modprobe tcp_bbr"))
    #expect(
      CongestionControl.Refusal.forbidden.words(for: "bbr").contains("net.ipv4.tcp_allowed_congestion_control"))
  }
}
