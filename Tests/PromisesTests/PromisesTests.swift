import Synchronization
import Testing

@testable import Promises

@Suite struct PromisesTests {
  private static let test = "Module.Suite/test()/File.swift:3:4"

  @Test func aLineHoldsPromiseOutcomeAndTest() {
    func line(_ outcome: PromiseRecord.Outcome) -> String {
      PromiseRecord(promise: "S40a", outcome: outcome, test: Self.test).line
    }
    #expect(line(.ran) == "S40a\tran\t\(Self.test)\n")
    #expect(
      line(.lacks(.namelessFiles, reason: "libfuse is 3.14"))
        == "S40a\tlacks nameless-files: libfuse is 3.14\t\(Self.test)\n")
    #expect(line(.skipped(reason: "two\nlines\tand a tab")) == "S40a\tskipped two lines and a tab\t\(Self.test)\n")
  }

  @Test func whatALibfuseBefore3_17LacksIsLackedByNature() {
    for ability in [Ability.passthrough, .namelessFiles] {
      #expect(ability.lack(libfuse: 316, kernel: (6, 12), isRoot: true) == .byNature("libfuse is 3.16, not 3.17"))
      #expect(ability.lack(libfuse: 317, kernel: (6, 9), isRoot: true) == nil)
    }
    #expect(Ability.oldLibfuse.lack(libfuse: 316, kernel: (6, 12), isRoot: true) == nil)
    #expect(Ability.oldLibfuse.lack(libfuse: 317, kernel: (6, 12), isRoot: true) == .byNature("libfuse is 3.17"))
  }

  @Test func passthroughWantsAKernelByNatureAndRootForThisRun() {
    #expect(Ability.passthrough.lack(libfuse: 317, kernel: (6, 1), isRoot: true) == .byNature("Linux is 6.1, not 6.9"))
    #expect(Ability.passthrough.lack(libfuse: 317, kernel: (6, 9), isRoot: false) == .inThisRun("needs root"))
    #expect(Ability.namelessFiles.lack(libfuse: 317, kernel: (6, 1), isRoot: false) == nil)
  }

  @Test(arguments: Ability.allCases) func withoutLibfuseNothingIsSaidOfTheMachine(ability: Ability) {
    #expect(ability.lack(libfuse: nil, kernel: (6, 9), isRoot: true) == .inThisRun("no libfuse in this process"))
  }

  @Test func libfuseIsFoundInTheTestsThatAreLinkedWithIt() {
    #expect((Ability.namelessFiles.lack == nil) != (Ability.oldLibfuse.lack == nil))
  }
}

@Suite struct PromiseTraitTests {
  /// What a trait records.
  private final class Records: Sendable {
    private let taken = Mutex<[PromiseRecord]>([])

    var outcomes: [PromiseRecord.Outcome] { taken.withLock { $0.map(\.outcome) } }

    var promises: [String] { taken.withLock { $0.map(\.promise) } }

    func trait(_ promises: String..., needs ability: Ability? = nil) -> PromiseTrait {
      PromiseTrait(promises: promises, needs: ability) { record in self.taken.withLock { $0.append(record) } }
    }
  }

  private struct Problem: Error {}

  private let records = Records()

  @Test func aBodyThatRanIsRecordedForEachPromise() async throws {
    let test = try #require(Test.current)
    try await records.trait("S1", "S2a").provideScope(for: test, testCase: nil) {
      #expect(records.outcomes == [], "nothing is recorded before the body has run")
    }
    #expect(records.outcomes == [.ran, .ran])
    #expect(records.promises == ["S1", "S2a"])
  }

  @Test func aBodyThatThrowsHasNotRun() async throws {
    let test = try #require(Test.current)
    await #expect(throws: Problem.self) {
      try await records.trait("S1").provideScope(for: test, testCase: nil) { throw Problem() }
    }
    #expect(records.outcomes == [.skipped(reason: "ended early: Problem")])
  }

  @Test func whatIsLackedSkipsTheTestAndIsRecorded() async throws {
    let test = try #require(Test.current)
    let (lacked, there) =
      Ability.oldLibfuse.lack == nil ? (Ability.namelessFiles, Ability.oldLibfuse) : (.oldLibfuse, .namelessFiles)
    await #expect(throws: (any Error).self) { try await records.trait("S1", needs: lacked).prepare(for: test) }
    guard case .lacks(lacked, _)? = records.outcomes.first else {
      Issue.record("\(records.outcomes)")
      return
    }
    try await records.trait("S1", needs: there).prepare(for: test)
    #expect(records.outcomes.count == 1)
  }
}
