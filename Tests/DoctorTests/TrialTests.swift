import FileModel
import Lookup
import Synchronization
import Testing
import TransferModel

@testable import Doctor

/// A server in memory: it answers steps, not requests.
final class TrialServer: Destination, HTTPTransport {
  struct State: Sendable {
    var steps: [String] = []
    var published: Set<String> = []
    var chunks: Set<Int> = []
  }

  let abilities: DestinationAbilities
  let refusal: StepFailure?
  let canRemove: Bool
  let status: Int
  let state = Mutex(State())
  let displayURL = "memory:"

  init(
    wholeFileBytesMax: Int = 1 << 20, parallelChunks: Int = 4, refusal: StepFailure? = nil, status: Int = 200,
    canRemove: Bool = true
  ) {
    self.status = status
    abilities = DestinationAbilities(
      parallelChunks: parallelChunks, replaceableChunks: true, unknownLength: true,
      wholeFileBytesMax: wholeFileBytesMax, fileBytesMax: nil)
    self.refusal = refusal
    self.canRemove = canRemove
  }

  func publishedName(for path: RelativePath) -> String { path.displayText }
  func request(for step: DestinationStep, at endpoint: EndpointID) -> HTTPRequest {
    HTTPRequest(.put, "https://memory/")
  }
  func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest? {
    guard canRemove else { return nil }
    state.withLock { _ = $0.published.remove(path.displayText) }
    return HTTPRequest(.delete, "https://memory/")
  }

  func start(_ requests: [PendingHTTPRequest]) {
    for request in requests { request.onCompletion(.success(HTTPResponse(status: status))) }
  }
  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}

  func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    state.withLock { state in
      if let refusal { return .refused(refusal) }
      switch step {
      case .openSession:
        state.steps.append("open")
        return .sessionOpened(id: "s", chunkBytes: 1 << 20, expiresAtSeconds: nil)
      case .chunk(let chunk):
        state.chunks.insert(chunk.index)
        return .chunkStoredAs(token: "t")
      case .querySession:
        return .held(digests: [:], tokens: LookupTable(state.chunks.map { ($0, "t") }))
      case .abort:
        state.steps.append("abort")
        state.chunks = []
        return .ended
      case .commit(let commit): return publish(&state, commit.path, commit.sizeBytes)
      case .wholeFile(let file): return publish(&state, file.path, UInt64(file.plainBytes))
      case .prewarm, .secureSession, .bundle, .run, .zeros: return .warmed
      }
    }
  }

  private func publish(_ state: inout State, _ path: RelativePath, _ sizeBytes: UInt64) -> StepOutcome {
    state.steps.append("publish")
    state.published.insert(path.displayText)
    return .published(
      Receipt(
        id: "r", name: path.displayText, sizeBytes: sizeBytes, merkleRoot: "", chainTip: "",
        publishedAtMilliseconds: 0))
  }
}

@Suite struct TrialTests {
  private func publication(_ server: TrialServer) throws -> [Finding] {
    let file = try TrialFile.note(host: "cam-1.local", nowNanoseconds: 1_800_000_000_000_000_000)
    #expect(file.path == RelativePath("uploadfs-doctor-cam-1local.txt"))
    return PublicationTrial(
      exchange: StepExchange(destination: server, transport: server), endpoint: .first, file: file
    ).run(clockDifference: nil)
  }

  @Test(arguments: [1 << 20, 0]) func aTestFileIsPublishedAndTakenAway(wholeFileBytesMax: Int) throws {
    let server = TrialServer(wholeFileBytesMax: wholeFileBytesMax)
    let findings = try publication(server)
    #expect(findings.map(\.check) == [.credentials, .testFile] && findings.allSatisfy { $0.level == .ok })
    #expect(server.state.withLock { $0.published.isEmpty })
    #expect(server.state.withLock { $0.steps } == (wholeFileBytesMax > 0 ? ["publish"] : ["open", "publish"]))
  }

  @Test func whereItCannotBeDeletedItIsSaidThatItStays() throws {
    let findings = try publication(TrialServer(canRemove: false))
    #expect(findings.last?.message.contains("It stays there") == true && findings.last?.level == .ok)
  }

  /// Regression: a form that takes media only refused the text.
  @Test func aSampleOfTheUsers_takesThePlaceOfTheText() throws {
    let sample = TrialSample(named: "/home/u/a.b.MP4", content: [1, 2, 3])
    let file = try TrialFile.note(host: "cam", sample: sample, nowNanoseconds: 0)
    #expect(file.path == RelativePath("uploadfs-doctor-cam.MP4") && file.content.bytes.elementsEqual([1, 2, 3]))
    let bare = try TrialFile.note(host: "cam", sample: TrialSample(named: "x/a", content: []), nowNanoseconds: 0)
    #expect(bare.path == RelativePath("uploadfs-doctor-cam"))
    let refused = try publication(TrialServer(refusal: StepFailure(.badRequest, "media only.")))
    #expect(refused.first?.advice?.contains("--test-sample FILE") == true)
    // Regression: so it was advised where there is no form, and no such bucket.
    for status in [404, 405, 410] {
      let missing = try publication(TrialServer(refusal: StepFailure(.badRequest, "nothing here."), status: status))
      #expect(missing.count == 1 && missing[0].level == .problem && missing[0].advice == nil)
    }
  }

  @Test func aRefusalIsTheOnlyFinding() throws {
    let findings = try publication(TrialServer(refusal: StepFailure(.unauthorized, "no.")))
    #expect(findings.map(\.check) == [.credentials] && findings.first?.level == .problem)
  }

  @Test(arguments: [true, false]) func anUploadIsBegunMeasuredAndEnded(isMeasuring: Bool) throws {
    let server = TrialServer()
    let plan = TrialPlan(server.abilities, limits: nil, streams: 12, measuring: isMeasuring)
    let file = try TrialFile.noise(plan.contentBytes, nowNanoseconds: 0)
    let findings = SessionTrial(
      exchange: StepExchange(destination: server, transport: server), endpoint: .first, plan: plan, file: file,
      isMeasuring: isMeasuring
    ).run(clockDifference: nil).findings
    #expect(findings.map(\.check) == (isMeasuring ? [.session, .throughput] : [.session]))
    #expect(findings.allSatisfy { $0.level == .ok })
    #expect(server.state.withLock { $0.steps } == ["open", "abort"])
  }

  @Test func chunksThatTheServerForgetsAreAWarning() {
    let finding = Finding.session(
      held: .held(digests: [0: ChunkDigest(ofZeros: 1).sha256]), acknowledged: [0, 1], ended: .ended)
    #expect(finding.level == .warning && finding.message.contains("does not know all chunks"))
    let left = Finding.session(held: .held(digests: [:]), acknowledged: [], ended: .refused(StepFailure(.busy, "no.")))
    #expect(left.level == .warning && left.message.contains("could not be ended"))
  }
}

@Suite struct TrialPlanTests {
  private func abilities(_ change: (inout DestinationAbilities) -> Void = { _ in }) -> DestinationAbilities {
    var abilities = DestinationAbilities(
      parallelChunks: 12, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 0, fileBytesMax: nil)
    change(&abilities)
    return abilities
  }

  @Test func aMeasurementIsBounded() {
    let plan = TrialPlan(abilities(), limits: nil, streams: 8, measuring: true)
    #expect(plan.chunkBytes == 4 << 20 && plan.sizeBytes == ThroughputMeasure.bytesMax && plan.streams == 8)
  }

  @Test func chunksAreAsLongAsTheDestinationWantsThem() {
    let plan = TrialPlan(abilities { $0.chunkBytesMin = 5 << 20 }, limits: nil, streams: 12, measuring: true)
    #expect(plan.chunkBytes == 5 << 20 && plan.sizeBytes <= ThroughputMeasure.bytesMax)
    let short = TrialPlan(abilities { $0.chunkBytesMin = 5 << 20 }, limits: nil, streams: 12, measuring: false)
    #expect(short.chunkBytes == 5 << 20 && short.contentBytes == 4 << 20 && short.chunkCount == 1)
    let little = DestinationLimits(fileBytesMax: 1000, chunkBytes: 1...(512 << 10))
    #expect(TrialPlan(abilities(), limits: little, streams: 1, measuring: true).contentBytes == 1000)
    let narrow = DestinationLimits(chunkBytes: 1...(512 << 10))
    #expect(TrialPlan(abilities(), limits: narrow, streams: 1, measuring: true).chunkBytes == 512 << 10)
  }

  /// Regression: chunks of 1 MiB passed where those of the mount did not, and the other way round.
  @Test func chunksAreThoseOfTheMount_orShorterOnes() throws {
    for isMeasuring in [true, false] {
      let plan = TrialPlan(abilities(), limits: nil, streams: 4, chunkBytes: 640 << 10, measuring: isMeasuring)
      #expect(plan.contentBytes == 640 << 10)
      let shorter = try #require(plan.shorter)
      #expect(shorter.contentBytes == 320 << 10 && shorter.sizeBytes <= plan.sizeBytes)
      #expect(shorter.shorter?.contentBytes == UploadConstants.chunkBytesMin && shorter.shorter?.shorter == nil)
    }
    let parts = TrialPlan(abilities { $0.chunkBytesMin = 5 << 20 }, limits: nil, streams: 4, measuring: true)
    #expect(parts.shorter == nil)
  }

  @Test func aDestinationWithOneChunkAtATimeGetsOne() {
    #expect(TrialPlan(abilities { $0.parallelChunks = 1 }, limits: nil, streams: 12, measuring: true).streams == 1)
  }

  @Test func aFastLinkIsMeasuredByWhatWasAcknowledged() throws {
    var measure = ThroughputMeasure()
    for (seconds, bytes) in [(0, 0), (1, 4_000_000), (2, 8_000_000), (3, 8_000_000)] {
      measure.add(.init(time: .seconds(seconds), acknowledgedBytes: UInt64(bytes), sentBytes: UInt64(bytes)))
    }
    #expect(measure.bytesPerSecond(chunkBytes: 1 << 20, streams: 4) == 4_000_000)
  }

  @Test func aSlowLinkIsMeasuredByWhatWentOutInTheSecondHalf() throws {
    var measure = ThroughputMeasure()
    // The kernel takes half a megabyte at once, then 100 kB go out each second.
    for second in 0...8 {
      let sent = second == 0 ? 0 : 500_000 + UInt64(second) * 100_000
      measure.add(.init(time: .seconds(second), acknowledgedBytes: 0, sentBytes: sent))
    }
    #expect(measure.bytesPerSecond(chunkBytes: 1 << 20, streams: 12) == 100_000)
    #expect(ThroughputMeasure().bytesPerSecond(chunkBytes: 1, streams: 1) == nil)
    #expect(Finding.throughput(ThroughputMeasure(), chunkBytes: 1, streams: 1).level == .warning)
  }
}
