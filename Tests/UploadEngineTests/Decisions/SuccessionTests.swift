import FileModel
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Contents of one file that follow each other quickly, as where a logger opens, appends and closes.
@Suite struct SuccessionTests {
  private static let log = FileID(high: 0, low: 1)

  private static func content(_ epoch: UInt64) -> ImaginaryFile {
    ImaginaryFile(1, "log.csv", size: 600 + epoch, epoch: epoch)
  }

  private static func wholeFiles(_ harness: ScheduleHarness) -> Int {
    harness.sent.count { $0.order.isWholeFile }
  }

  /// Its first content is delivered, for which the server took so long.
  private static func delivered(in duration: Duration, close: FileSettings.Close = .return) -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.rules.defaults.close = close
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    harness.write(content(1))
    harness.answerReads()
    harness.now.monotonic = harness.now.monotonic + duration
    harness.succeed()
    #expect(harness.state(log) == .complete)
    return harness
  }

  private static func append(_ epoch: UInt64, _ harness: inout ScheduleHarness) {
    harness.handle(content(epoch).opened)
    harness.handle(content(epoch).changed)
    harness.handle(content(epoch).settled)
    harness.answerReads()
  }

  /// Regression: each of them was sent as a whole, one after the other.
  @Test(.promises("S33c"))
  func contentsInQuickSuccession_goOutTogether() {
    var harness = Self.delivered(in: .seconds(1))
    for epoch in 2...20 {
      Self.append(UInt64(epoch), &harness)
      harness.advance(by: .milliseconds(200))
      #expect(Self.wholeFiles(harness) == 0, "epoch \(epoch)")
    }
    let status = harness.status(Self.log)
    #expect(status?.state == .waiting && status?.lastFailure == nil && status?.attempts == 0)
    #expect(harness.schedule.summary(at: harness.now).fileFailure == nil)
    harness.advance(by: .milliseconds(200))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == 1)
    harness.succeed()
    #expect(harness.state(Self.log) == .complete && harness.status(Self.log)?.revision == 20)
  }

  @Test(.promises("S33c"))
  func contentThatFollowsLater_goesOutAtOnce() {
    var harness = Self.delivered(in: .seconds(1))
    harness.advance(by: .seconds(4))
    Self.append(2, &harness)
    #expect(Self.wholeFiles(harness) == 1)
  }

  @Test(.promises("S33c"))
  func noContentWaitsForLongerThanHalfAMinute() {
    var harness = Self.delivered(in: .seconds(3600))
    Self.append(2, &harness)
    harness.advance(by: .seconds(29))
    #expect(Self.wholeFiles(harness) == 0)
    harness.advance(by: .seconds(1))
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == 1)
  }

  /// What made a delivery late says nothing of how long the next one takes.
  @Test(.promises("S33c"))
  func deliveryAfterAFailure_makesNoContentWait() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(Self.content(1))
    harness.answerReads()
    harness.answer(.refused(StepFailure(.busy, "busy"))) { $0.isWholeFile }
    harness.advance(by: .seconds(600))
    harness.succeed()
    #expect(harness.state(Self.log) == .complete)
    Self.append(2, &harness)
    #expect(Self.wholeFiles(harness) == 1)
  }

  enum Hurry: CaseIterable, Sendable { case drain, retry, rule, disk }

  @Test(.promises("S33c"), arguments: Hurry.allCases)
  func whatIsWaitedFor_goesOutAtOnce(hurry: Hurry) {
    var harness = Self.delivered(in: .seconds(1), close: hurry == .rule ? .wait : .return)
    if hurry == .disk {
      var content = Self.content(2)
      harness.handle(content.opened)
      harness.handle(content.changed)
      content.snapshot.diskErrno = 5
      harness.handle(content.settled)
    } else {
      Self.append(2, &harness)
    }
    #expect((harness.state(Self.log) == .waiting) == (hurry == .drain || hurry == .retry))
    if hurry == .drain { harness.apply { $0.beginDraining(at: $1) } }
    if hurry == .retry { harness.apply { $0.retry(Self.log, at: $1) } }
    harness.answerReads()
    #expect(Self.wholeFiles(harness) == 1)
  }
}
