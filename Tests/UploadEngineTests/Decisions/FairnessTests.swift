import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// Turns (docs/design/scheduling.md#turns) in numbers: who gets how much of the link, counted in acknowledgements. The
/// link answers one request at a time, in the order in which they were sent.
@Suite struct FairnessTests {
  private static let chunkBytes = 1 << 20
  private static let smallBytes = 40 << 10

  private static func makeHarness() -> ScheduleHarness {
    var limits = UploadLimits()
    limits.chunkBytes = chunkBytes
    limits.rampDelay = .zero
    var harness = ScheduleHarness(limits: limits, wholeFileBytesMax: chunkBytes)
    harness.handle(.scanEnded)
    return harness
  }

  private static func large(_ number: UInt64, chunks: Int) -> ImaginaryFile {
    ImaginaryFile(number, "large \(number)", size: UInt64(chunks * chunkBytes))
  }

  private static func small(_ number: UInt64) -> ImaginaryFile {
    ImaginaryFile(number, "small \(number)", size: UInt64(smallBytes))
  }

  @Test func largeFiles_getEqualShares() {
    var harness = Self.makeHarness()
    let files = (1...3).map { Self.large($0, chunks: 1000) }
    for file in files { harness.settle(file) }
    _ = harness.acknowledge(50)
    let shares = harness.acknowledge(90)
    for file in files { #expect((29...31).contains(shares[file.id] ?? 0), "\(shares)") }
  }

  /// It is not made up for what others had before it came, and it does not wait until they are done.
  @Test func newcomer_getsHalfOfTheLink_fromTheStart() {
    var harness = Self.makeHarness()
    let huge = Self.large(1, chunks: 1000)
    harness.settle(huge)
    _ = harness.acknowledge(200)
    let newcomer = Self.large(2, chunks: 30)
    harness.settle(newcomer)
    let early = harness.acknowledge(15 + 20)
    #expect((9...11).contains(early[newcomer.id] ?? 0), "what lies in the buffers, then every other chunk: \(early)")
    let late = harness.acknowledge(40)
    #expect((19...21).contains(late[newcomer.id] ?? 0), "\(late)")
  }

  /// A client that has come far rests while no other one is there, and starts with the others again.
  @Test func fileThatPaused_isNotGivenWhatItMissed() {
    var harness = Self.makeHarness()
    let one = Self.large(1, chunks: 1000)
    let other = Self.large(2, chunks: 1000)
    harness.settle(one)
    harness.settle(other)
    _ = harness.acknowledge(20)
    // Being written again, it leaves the link to the other one for as long.
    harness.handle(other.opened)
    _ = harness.acknowledge(100)
    harness.settle(other)
    let shares = harness.acknowledge(15 + 40)
    #expect((15...25).contains(shares[other.id] ?? 0), "\(shares)")
  }

  @Test func smallFile_waitsForWhatLiesInTheBuffers_besideLargeOnes() {
    var harness = Self.makeHarness()
    for number in 1...16 { harness.settle(Self.large(UInt64(number), chunks: 1000)) }
    _ = harness.acknowledge(100)
    let file = Self.small(100)
    harness.settle(file)
    #expect(harness.acknowledge(16)[file.id] == 1)
  }

  /// More small files come than can be sent: a third of the requests is theirs, and the large file has the others.
  @Test(arguments: [1, 64]) func streamOfSmallFiles_leavesALargeOneItsShare(filesPerRequest: Int) {
    var harness = Self.makeHarness()
    harness.checksSums = false
    harness.offers = DestinationOffers(filesPerRequest: filesPerRequest)
    let file = Self.large(1, chunks: 1000)
    harness.settle(file)
    _ = harness.acknowledge(20)
    for number in 100..<(100 + 200 * UInt64(filesPerRequest)) { harness.settle(Self.small(number)) }
    // What lay in the buffers is no share.
    _ = harness.acknowledge(50)
    let chunks = harness.acknowledge(300)[file.id] ?? 0
    // Several together are fewer requests.
    #expect((150...(filesPerRequest == 1 ? 225 : 285)).contains(chunks), "\(chunks) of 300 requests")
  }

  /// The choice should know what can be sent. Where it does not (here a session has lost its name), the file would be chosen again at
  /// once, for ever.
  @Test func whatIsChosenAndNotSent_isPassedOver_andTheOthersHaveTheirTurn() {
    var harness = ScheduleHarness()
    harness.expectsNotSent = true
    harness.handle(.scanEnded)
    let (nameless, other) = (ImaginaryFile(1, "a.mov", size: 3500), ImaginaryFile(2, "b.mov", size: 3500))
    for file in [nameless, other] {
      harness.write(file)
      harness.openSession()
    }
    let session = harness.schedule.files[nameless.id]?.session
    harness.schedule.files[nameless.id]?.session = session.map {
      UploadSession(
        state: $0.state, id: nil, nonce: $0.nonce, chunkBytes: $0.chunkBytes, epoch: $0.epoch,
        openedAtSeconds: $0.openedAtSeconds)
    }
    harness.answerReads()
    #expect(!harness.chunkRequests.isEmpty)
    #expect(harness.notSent == [RelativePath("a.mov")], "it is said once")
  }
}

extension ScheduleHarness {
  fileprivate mutating func settle(_ file: ImaginaryFile) {
    write(file)
    answerAllButChunks()
  }

  private mutating func answerAllButChunks() {
    answerReads()
    while let order = sent.first(where: { !$0.order.carriesChunk })?.order {
      answer(succeeding(order)) { !$0.carriesChunk }
      answerReads()
    }
    record()
    // The rest is not checked, and there is much of it.
    others = []
  }

  /// Acknowledges so many chunks and whole files; how many of each file.
  fileprivate mutating func acknowledge(_ count: Int) -> [FileID: Int] {
    var shares: [FileID: Int] = [:]
    for _ in 0..<count {
      guard let order = sent.first(where: { $0.order.carriesChunk })?.order else { break }
      if let file = file(of: order) { shares[file, default: 0] += 1 }
      answer(succeeding(order)) { $0.carriesChunk }
      answerAllButChunks()
    }
    return shares
  }

  /// Each file has a session of its own, named after it.
  private func succeeding(_ order: SendOrder) -> StepOutcome {
    guard case .openSession(let opening) = order else { return Self.success(of: order) }
    return .sessionOpened(id: opening.fileID.description, chunkBytes: opening.chunkBytes, expiresAtSeconds: nil)
  }

  private func file(of order: SendOrder) -> FileID? {
    switch order {
    case .chunk, .run: order.chunks.flatMap { FileID($0.session.id) }
    case .wholeFile(let whole): whole.file
    case .bundle: nil
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort: nil
    }
  }
}
