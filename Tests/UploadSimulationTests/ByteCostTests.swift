import FileModel
import Integrity
import Testing
import TransferModel

@testable import UploadSimulation

/// How many bytes of a file may go out for nothing.
@Suite struct ByteCostTests {
  private static let file = FileID(high: 1, low: 2)
  private static let sizeBytes = 100
  private let world = World(scenario: .calm, seed: 1, bug: nil, plan: nil, isTracing: false)
  private var costs: ByteCosts
  private var requests: UInt64 = 0

  init() { costs = ByteCosts(world) }

  /// Sends a part of the file after a pause, and hears what becomes of it.
  private mutating func send(
    _ range: Range<Int> = 0..<sizeBytes, after pause: Duration, published path: RelativePath? = nil,
    _ outcome: StepOutcome
  ) {
    world.time.after(pause) {}
    _ = world.time.step()
    requests += 1
    let publication = path.map { CarriedBytes.Publication(path: $0, digest: sha256([1])) }
    costs.sent(
      HTTPRequestID(requests),
      [CarriedBytes(file: Self.file, range: range, fileBytes: Self.sizeBytes, publication: publication)])
    costs.ended(HTTPRequestID(requests), outcome)
  }

  private static func refused(_ kind: StepFailure.Kind) -> StepOutcome { .refused(StepFailure(kind, "no")) }

  @Test mutating func shortestGrowingPauses_areAllowed() {
    send(after: .zero, Self.refused(.busy))
    send(after: .zero, Self.refused(.busy))
    for pause in [0.5, 0.75, 1.125, 1.69, 2.53, 3.8, 5.7] { send(after: .seconds(pause), Self.refused(.busy)) }
    for _ in 0..<1000 { send(after: .seconds(7.5), Self.refused(.busy)) }
    #expect(world.violation == nil)
  }

  @Test mutating func pausesThatStay_areFound_alsoWhereWhatIsSentWasAcknowledged() {
    for _ in 0..<40 { send(after: .seconds(3), .chunkStored) }
    #expect(world.violation?.invariant == .cost)
  }

  @Test mutating func otherPieces_areTheSameBytes() {
    for round in 0..<40 {
      let middle = 10 + 2 * round
      send(0..<middle, after: .seconds(1.5), .chunkStored)
      send(middle..<Self.sizeBytes, after: .seconds(1.5), .chunkStored)
    }
    #expect(world.violation?.invariant == .cost)
  }

  @Test mutating func whatIsAcknowledgedForTheFirstTime_isNoLoss() {
    for start in 0..<Self.sizeBytes {
      for _ in 0..<9 { send(after: .zero, Self.refused(.transport(.connectionLost))) }
      send(start..<(start + 1), after: .zero, .chunkStored)
    }
    #expect(world.violation == nil)
  }

  @Test mutating func whatIsSentAfterTheAnswersThatEndIt_isFound() {
    let name = RelativePath("a")
    for _ in 0..<UploadConstants.fileTriesMax {
      send(after: .seconds(60), published: name, Self.refused(.unexpectedAnswer))
    }
    #expect(world.violation == nil)
    for _ in 0..<2 { send(after: .seconds(60), published: name, Self.refused(.unexpectedAnswer)) }
    #expect(world.violation?.invariant == .cost)
  }

  @Test mutating func theSamePublication_isNothingThatWasToBeDone() {
    let receipt = Receipt(
      id: "r", name: "a", sizeBytes: 100, merkleRoot: "", chainTip: "", publishedAtMilliseconds: 0)
    for _ in 0..<40 { send(after: .seconds(3), published: RelativePath("a"), .published(receipt)) }
    #expect(world.violation?.invariant == .cost)
  }
}
