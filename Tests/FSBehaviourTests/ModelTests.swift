import FilesystemCalls
import Foundation
import Promises
import Testing

/// Random operations of several processes, in a mount and in a plain folder at once: after each step both show the same.
///
/// The same seeds each time; UPLOADFS_MODEL_SEED=17 plays one seed again, and UPLOADFS_MODEL_SECONDS=600 draws fresh ones for
/// so long.
@Suite struct ModelTests {
  private static let steps = 500
  private static let fixedSeeds: [UInt64] = [0, 1, 2]

  private static func setting(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
  }

  private static let seeds = setting("UPLOADFS_MODEL_SEED").map { [$0] } ?? fixedSeeds

  @Test(
    .promises(
      "S1", "S3a", "S3b", "S4", "S6a", "S8a", "S9", "S10", "S11", "S12a", "S13b", "S14a", "S18a", "S19", "S24"),
    arguments: seeds)
  func theMountShowsWhatAPlainFolderShows(seed: UInt64) async throws {
    let duration = Self.setting("UPLOADFS_MODEL_SECONDS").map { Duration.seconds(Int64($0)) }
    try await withTaskExecutorPreference(FilesystemThreads.shared) {
      guard let duration else { return try Self.play(seed) }
      let end = ContinuousClock.now + duration
      // Three at a time, one for each fixed seed.
      while ContinuousClock.now < end { try Self.play(UInt64.random(in: 0..<1 << 30)) }
    }
  }

  private static func play(_ seed: UInt64) throws {
    let sequence = DrawnOperation.sequence(seed: seed, count: steps)
    guard let difference = try Model.difference(of: sequence) else { return }
    let trace = try shortened(Array(sequence.prefix(difference.step + 1)))
    let again = try Model.difference(of: trace)?.description ?? "which do not differ each time"
    Issue.record(
      """
      seed \(seed), step \(difference.step), \(sequence[difference.step]):
      \(difference)

      shortened to \(trace.count) steps:
      \(trace.map { "  \($0)" }.joined(separator: "\n"))
      \(again)

      again: UPLOADFS_MODEL_SEED=\(seed) swift test --filter FSBehaviourTests.ModelTests
      """)
  }

  /// A short part of a sequence that still differs: drops pieces as long as it does, for a minute at most.
  private static func shortened(_ sequence: [DrawnOperation]) throws -> [DrawnOperation] {
    let end = ContinuousClock.now + .seconds(60)
    var sequence = sequence
    var piece = sequence.count / 2
    while piece >= 1 {
      var start = 0
      while start < sequence.count {
        guard ContinuousClock.now < end else { return sequence }
        let rest = Array(sequence[..<start] + sequence[min(start + piece, sequence.count)...])
        if !rest.isEmpty, let difference = try Model.difference(of: rest) {
          sequence = Array(rest.prefix(difference.step + 1))
        } else {
          start += piece
        }
      }
      piece /= 2
    }
    return sequence
  }

  /// Two files of the same content, one of which has two names; a link and folders; each with the same times.
  private static let setUp: [Call] =
    ["n0", "n2", "n3", "n5", "a/n1", "b"].map { .unlink($0) }
    + [
      .mkdir("b"), .put("n0", .repeated(7, count: 5000)), .link("n0", "a/n1"), .put("n2", .repeated(7, count: 5000)),
      .symlink("n0", "n5"),
    ] + ["n0", "n2", "n5", "b", "a/c", "a", "."].map(old)

  /// What may differ between two folders, each made by a call in one of them.
  private static let spoiling: [Call] = [
    .put("n3", ""), .unlink("n5"), .rmdir("b"), .chmod("n0", 0o604), .truncate("n0", 4999), .truncate("n0", 5001),
    .utimens("b", access: .nanoseconds(5), modification: .nanoseconds(6)),
    .utimens("n0", access: .omit, modification: .now), .utimens(".", access: .omit, modification: .nanoseconds(6)),
    // Other bytes of the same length and with the same times.
    .sequence([.put("n2", .repeated(8, count: 5000)), old("n2")]),
    .sequence([.open("n2", .writeOnly, as: "file"), .pwrite("file", "x", at: 4999), .close("file"), old("n2")]),
    // The other target, and the other one of two files with the same content.
    .sequence([.unlink("n5"), .symlink("n1", "n5"), old("n5"), old(".")]),
    .sequence([.unlink("a/n1"), .link("n2", "a/n1"), old("a")]),
    .sequence([.unlink("a/n1"), .put("a/n1", .repeated(7, count: 5000)), old("a/n1"), old("a")]),
    // A link to a folder in its place.
    .sequence([.rmdir("b"), .symlink("a", "b"), old("b"), old(".")]),
  ]

  private static func old(_ path: Path) -> Call {
    .utimens(path, access: .nanoseconds(5), modification: .nanoseconds(5), follows: false)
  }

  @Test func everyKindOfDifferenceIsNoticed() async throws {
    try await withTaskExecutorPreference(FilesystemThreads.shared) {
      let model = try Model()
      do {
        for call in Self.spoiling {
          for call in Self.setUp { _ = try model.both(call) }
          #expect(try model.compared(true) == nil, "alike before \(call)")
          try model.spoil(call)
          #expect(try model.compared(true) != nil, "\(call)")
        }
      } catch {
        _ = model.close(after: error)
        throw error
      }
      #expect(model.close() == [])
    }
  }
}
