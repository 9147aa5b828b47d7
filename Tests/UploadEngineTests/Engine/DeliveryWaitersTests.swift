import FileModel
import Promises
import Synchronization
import Lookup
import OrderedCollections
import Testing

@testable import UploadEngine

@Suite struct DeliveryWaitersTests {
  private final class Told: Sendable {
    let outcomes = Mutex<[DeliveryOutcome]>([])
    func note(_ outcome: DeliveryOutcome) { outcomes.withLock { $0.append(outcome) } }
    var all: [DeliveryOutcome] { outcomes.withLock { $0 } }
  }

  private let file = FileID(high: 1, low: 2)

  @Test func waiter_isToldOnce_ofItsEpochOrALaterOne() {
    let waiters = DeliveryWaiters()
    let (early, late) = (Told(), Told())
    _ = waiters.add(file, epoch: 3) { early.note($0) }
    _ = waiters.add(file, epoch: 7) { late.note($0) }
    waiters.tell(file, upTo: 2, .delivered)
    #expect(early.all.isEmpty)
    waiters.tell(file, upTo: 5, .delivered)
    waiters.tell(file, upTo: 5, .failed)
    #expect(early.all == [.delivered] && late.all.isEmpty && waiters.isAwaited(file))
    waiters.endAll()
    #expect(early.all == [.delivered] && late.all == [.failed] && !waiters.isAwaited(file))
  }

  @Test func whoeverWaitsNoMore_isNotTold() {
    let waiters = DeliveryWaiters()
    let told = Told()
    let wait = waiters.add(file, epoch: 1) { told.note($0) }
    waiters.remove(wait, for: file)
    waiters.tell(file, upTo: 9, .delivered)
    #expect(told.all.isEmpty && !waiters.isAwaited(file))
  }
}

@Suite struct DeliveryOutcomeTests {
  private func harness(_ rules: [String] = []) throws -> ScheduleHarness {
    var limits = ScheduleHarness.standardLimits
    limits.rules = FileRules(rules: try rules.map { text throws(FileRuleProblem) in try FileRule(text) })
    var harness = ScheduleHarness(limits: limits)
    harness.handle(.scanEnded)
    return harness
  }

  @Test(.promises("S42a")) func delivery_isKnownOnceItsReceiptIsDurable() throws {
    var harness = try harness()
    let file = ImaginaryFile(1, "a.mov", size: 3500, epoch: 4)
    harness.write(file)
    #expect(harness.schedule.deliveryOutcome(of: file.id) == nil)
    harness.succeed()
    let outcome = harness.schedule.deliveryOutcome(of: file.id)
    #expect(outcome?.epoch == 4 && outcome?.outcome == .delivered)
    harness.handle(file.changed)
    #expect(harness.schedule.deliveryOutcome(of: file.id) == nil, "it is about to be another content")
  }

  @Test(.promises("S42b", "S42e")) func whatWillNotComeByItself_isKnownAtOnce() throws {
    var harness = try harness(["*.log upload=never"])
    for (number, name, expected) in [
      (1, "a.log", DeliveryOutcome.notToBeDelivered), (2, "a.part", .notToBeDelivered), (3, "a.mov", .failed),
    ] {
      var file = ImaginaryFile(UInt64(number), name, size: 10)
      if expected == .failed { file.snapshot.interruption = .mountDied }
      harness.write(file)
      #expect(harness.schedule.deliveryOutcome(of: file.id)?.outcome == expected, "\(name)")
    }
    #expect(harness.schedule.deliveryOutcome(of: FileID(high: 9, low: 9))?.outcome == .failed)
  }

  @Test(.promises("S43")) func fileThatWasSettledWhileItWasOpen_isOpenAgainAtItsNextChange() throws {
    var harness = try harness()
    let file = ImaginaryFile(1, "a.mov", size: 3500)
    harness.write(file)
    harness.succeed()
    harness.handle(file.changed)
    #expect(harness.state(file.id) == .writing && harness.schedule.openFiles.open == [file.id])
    harness.handle(file.settled)
    #expect(harness.schedule.openFiles.open.isEmpty)
  }
}
