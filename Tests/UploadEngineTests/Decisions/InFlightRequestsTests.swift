import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct InFlightRequestsTests {
  private static let file = FileID(high: 0, low: 1)

  private static let session = SessionIdentity(id: "s", nonce: [])
  private static let chunk = SessionChunk(
    session: session, ChunkOrder(index: 0, digest: ChunkDigest(ofZeros: 4), read: ReadID(1)))

  private static func request(_ order: SendOrder, named name: String? = nil) -> InFlightRequest {
    var request = InFlightRequest(order, for: file, sentAt: MonotonicTime(nanoseconds: 0))
    request.publishes = [name].compactMap { $0 }.map {
      InFlightRequest.Publication(path: RelativePath($0), file: file, epoch: 1, bodyBytes: 0)
    }
    return request
  }

  /// What a request holds of the bounds is what it gives back, whatever became of it meanwhile.
  @Test func boundsAreHeld_fromBeginToEnd() {
    var requests = InFlightRequests()
    var small = Self.request(.bundle([]))
    small.carriesSmallFiles = true
    var stream = Self.request(.bundle([]))
    stream.streams = Self.file
    let all = [
      Self.request(.run([Self.chunk])), small, stream, Self.request(.querySession(Self.session)),
    ]
    let ids = all.map { request in
      let id = requests.makeID()
      requests.begin(request, as: id)
      return id
    }
    #expect(Set(ids).count == 4 && requests.map(\.key) == ids)
    #expect(
      [requests.chunkCount, requests.smallCount, requests.streamCount, requests.controlCount] == [1, 1, 1, 1])
    for id in ids {
      requests.arrived(5, of: id)
      requests.giveUp(id)
      #expect(requests.end(id)?.sentBytes == 5)
      #expect(requests.end(id) == nil)
    }
    #expect(requests.isEmpty)
    #expect(
      [requests.chunkCount, requests.smallCount, requests.streamCount, requests.controlCount] == [0, 0, 0, 0])
  }

  @Test func nameIsBeingPublished_untilItsRequestHasEnded() {
    var requests = InFlightRequests()
    let (commit, prewarm) = (requests.makeID(), requests.makeID())
    requests.begin(Self.request(.prewarm, named: "a.mov"), as: commit)
    requests.begin(Self.request(.prewarm), as: prewarm)
    #expect(requests.isPublishing(RelativePath("a.mov")) && !requests.isPublishing(RelativePath("b.mov")))
    _ = requests.end(prewarm)
    #expect(requests.isPublishing(RelativePath("a.mov")))
    requests.commit(commit, lacksChunks: true)
    #expect(requests[commit]?.lacksChunks == true)
    _ = requests.end(commit)
    #expect(!requests.isPublishing(RelativePath("a.mov")))
  }

  /// What a request is about follows from its order: the chunks of one file, or the files that go whole.
  @Test func aRequest_isAboutWhatItCarries() {
    let chunk = Self.request(.chunk(Self.chunk))
    #expect(chunk.onlyFile == Self.file && chunk.chunkIndices == [0] && chunk.files == [Self.file])
    #expect(Self.request(.querySession(Self.session)).onlyFile == nil)
    let others = [FileID(high: 0, low: 2), FileID(high: 0, low: 3)]
    let orders = others.map {
      WholeFileOrder(
        file: $0, epoch: 1, nonce: [], path: RelativePath("a"), digest: Self.chunk.chunk.digest, modifiedNanoseconds: 0,
        mode: 0)
    }
    let bundle = InFlightRequest(.bundle(orders), sentAt: MonotonicTime(nanoseconds: 0))
    #expect(bundle.files == others && bundle.onlyFile == nil && bundle.concerns(others[1]))
    #expect(!bundle.concerns(Self.file))
  }
}
