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
      if loss.add(from: before, to: counts(step * 100, lost: step, roundTrip: 106)) == .tries { noticedAt = step * 100 }
    }
    #expect(noticedAt == 500 && loss.usesBBR)
  }

  @Test("It is said once, and a trial that loses no more than before lasts")
  func whatIsKnown_isNotSaidAgain() {
    var loss = PathLoss()
    let said = [
      loss.add(from: counts(0, lost: 0), to: counts(500, lost: 5)),
      loss.add(from: counts(500, lost: 5), to: counts(1500, lost: 15)),
      loss.add(from: counts(1500, lost: 15), to: counts(2500, lost: 30)),
      loss.add(from: counts(2500, lost: 30), to: counts(9000, lost: 3000)),
    ]
    #expect(said == [.tries, nil, nil, nil] && loss.usesBBR && !loss.hasGoneBack)
  }

  @Test("A trial in which far more is lost ends, and does not come again")
  func trialInVain_goesBack() {
    var loss = PathLoss()
    let said = [
      loss.add(from: counts(0, lost: 0), to: counts(500, lost: 5)),
      loss.add(from: counts(500, lost: 5), to: counts(1500, lost: 250)),
      loss.add(from: counts(1500, lost: 250), to: counts(2500, lost: 500)),
      loss.add(from: counts(2500, lost: 500), to: counts(3000, lost: 510)),
    ]
    #expect(said == [.tries, nil, .goesBack, nil] && !loss.usesBBR && loss.hasGoneBack)
  }

  /// Regression: on 20 Mbit/s and 200 ms that lose three of a hundred, the trial was in vain once of three times, and a file of 25 MB
  /// took 50 s instead of 14.
  @Test(
    "A trial that fills the queue and carries far more is not in vain",
    arguments: [(29, false), (15, false), (13, true), (0, true)])
  func trialThatFillsTheLine_lasts(segmentsPerRoundTrip: Int, isInVain: Bool) {
    var loss = PathLoss()
    let before = counts(500, lost: 15, roundTrip: 200, least: 200)
    #expect(loss.add(from: counts(0, lost: 0, roundTrip: 200, least: 200), to: before) == .tries)
    // A loss of 3 % leaves 7.07 segments of a window.
    var after = counts(3000, lost: 400, roundTrip: 290, least: 200)
    (after.segmentBytes, after.deliveryBytesPerSecond) = (1448, UInt64(segmentsPerRoundTrip) * 1448 * 5)
    let said = loss.add(from: before, to: after)
    #expect(said == (isInVain ? .goesBack : nil) && loss.usesBBR != isInVain)
  }

  @Test("What is lost while the queue is full is not the line's loss", arguments: [(30, 20), (130, 100), (200, 100)])
  func fullQueue_isNoLoss(roundTrip: Int, least: Int) {
    var loss = PathLoss()
    for step in 1...200 {
      _ = loss.add(
        from: counts((step - 1) * 100, lost: step - 1, roundTrip: roundTrip, least: least),
        to: counts(step * 100, lost: step, roundTrip: roundTrip, least: least))
    }
    #expect(!loss.usesBBR)
  }

  @Test("A short queue that loses packets is empty now and then, which says nothing")
  func shortQueue_isNoLoss() {
    var loss = PathLoss()
    func roundTrip(_ step: Int) -> Int { step.isMultiple(of: 3) ? 61 : 70 }
    for step in 1...500 {
      _ = loss.add(
        from: counts((step - 1) * 100, lost: step - 1, roundTrip: roundTrip(step - 1), least: 60),
        to: counts(step * 100, lost: step, roundTrip: roundTrip(step), least: 60))
    }
    #expect(!loss.usesBBR)
  }

  @Test("Round trips that are longer now and then hide no loss: acknowledgements are delayed")
  func delayedAcknowledgements_hideNoLoss() {
    var loss = PathLoss()
    func roundTrip(_ step: Int) -> Int { step % 3 == 0 ? 230 : 205 }
    for step in 1...100 {
      _ = loss.add(
        from: counts((step - 1) * 30, lost: step - 1, roundTrip: roundTrip(step - 1), least: 200),
        to: counts(step * 30, lost: step, roundTrip: roundTrip(step), least: 200))
    }
    #expect(loss.usesBBR)
  }

  @Test("What is lost until the queue is empty again was lost in the queue")
  func emptiedQueue_isNoLoss() {
    var loss = PathLoss()
    var (lost, roundTrip) = (0, 61)
    for step in 2...600 {
      let before = counts((step - 1) * 100, lost: lost, roundTrip: roundTrip, least: 60)
      // Each sixth look finds a queue, and the next one finds it empty: it has dropped a burst.
      lost += step % 6 == 1 ? 20 : 0
      roundTrip = step % 6 == 0 ? 70 : 61
      _ = loss.add(from: before, to: counts(step * 100, lost: lost, roundTrip: roundTrip, least: 60))
    }
    #expect(!loss.usesBBR)
  }

  @Test("A fifth of the first packets is no measure of what a trial may lose")
  func firstBurst_isNoMeasure() {
    var loss = PathLoss()
    #expect(loss.add(from: counts(0, lost: 0), to: counts(40, lost: 8)) == nil)
    #expect(loss.add(from: counts(40, lost: 8), to: counts(560, lost: 12)) == .tries)
    #expect(loss.add(from: counts(560, lost: 12), to: counts(2600, lost: 290)) == .goesBack)
  }

  @Test("Losses that cost nothing stay as they are, however many come together")
  func rareLoss_isLeftAlone() {
    var loss = PathLoss()
    for step in 1...2000 {
      _ = loss.add(from: counts((step - 1) * 10_000, lost: step - 1), to: counts(step * 10_000, lost: step))
    }
    #expect(!loss.usesBBR)
  }

  @Test("A few losses at the start are chance")
  func fewLosses_areChance() {
    var loss = PathLoss()
    _ = loss.add(from: counts(0, lost: 0), to: counts(20, lost: 4))
    #expect(!loss.usesBBR)
  }

  @Test("Counts wrap around, and a loss that turns out to be none is taken back")
  func oddCounts_doNoHarm() {
    var loss = PathLoss()
    _ = loss.add(from: counts(Int(UInt32.max) - 50, lost: 3), to: counts(Int(UInt32.max) + 51, lost: 7))
    _ = loss.add(from: counts(50, lost: 7), to: counts(150, lost: 3))
    _ = loss.add(from: counts(150, lost: 3), to: counts(600, lost: 7))
    #expect(!loss.usesBBR)
    _ = loss.add(from: counts(600, lost: 7), to: counts(700, lost: 8))
    #expect(loss.usesBBR)
  }
}

@Suite("Congestion control")
struct CongestionControlTests {
  @Test("Which one all connections get")
  func name_followsChoice() {
    #expect(CongestionControl.allCases.map(\.fixedName) == [nil, "bbr", "cubic", nil])
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
