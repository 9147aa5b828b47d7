public import Testing

/// Ties a test, or all tests of a suite, to promises of the documents: `@Test(.promises("S3", "S40a"))`.
///
/// A test with `needs:` is skipped where the ability is missing; scripts/promises then lists its promises with the reason.
public struct PromiseTrait: TestTrait, SuiteTrait, TestScoping {
  let promises: [String]
  let needs: Ability?
  var record: @Sendable (PromiseRecord) -> Void = { $0.append() }

  /// A suite's promises are those of each of its tests.
  public var isRecursive: Bool { true }

  /// Skips the test where an ability is missing. A trait has no other word for that than what a condition throws.
  public func prepare(for test: Test) async throws {
    guard let needs, let lack = needs.lack else { return }
    switch lack {
    case .byNature(let reason):
      record(.lacks(needs, reason: reason), of: test)
      try await ConditionTrait.disabled("no \(needs.rawValue) here: \(reason)").prepare(for: test)
    case .inThisRun(let reason):
      record(.skipped(reason: reason), of: test)
      try await ConditionTrait.disabled("\(reason)").prepare(for: test)
    }
  }

  /// Called once for each argument of a test, so that one without arguments counts as not run.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    do {
      try await function()
    } catch {
      record(.skipped(reason: "ended early: \(type(of: error))"), of: test)
      throw error
    }
    record(Task.isCancelled ? .skipped(reason: "cancelled") : .ran, of: test)
  }

  private func record(_ outcome: PromiseRecord.Outcome, of test: Test) {
    for promise in promises { record(PromiseRecord(promise: promise, outcome: outcome, test: "\(test.id)")) }
  }
}

extension Trait where Self == PromiseTrait {
  /// The promises, by their ids in docs, that the test holds.
  public static func promises(_ promises: String..., needs ability: Ability? = nil) -> Self {
    PromiseTrait(promises: promises, needs: ability)
  }
}
