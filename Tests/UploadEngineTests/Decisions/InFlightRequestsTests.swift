import FileModel
import Testing

@testable import UploadEngine

@Suite struct InFlightRequestsTests {
  private static let file = FileID(high: 0, low: 1)

  private static func request(_ purpose: InFlightRequest.Purpose, named name: String? = nil) -> InFlightRequest {
    var request = InFlightRequest(purpose: purpose, sentAt: MonotonicTime(nanoseconds: 0))
    request.publishes = [name].compactMap { $0 }.map {
      InFlightRequest.Publication(path: RelativePath($0), file: file, epoch: 1, bodyBytes: 0)
    }
    return request
  }

  /// What a request holds of the bounds is what it gives back, whatever became of it meanwhile.
  @Test func boundsAreHeld_fromBeginToEnd() {
    var requests = InFlightRequests()
    var small = Self.request(.wholeFiles([]))
    small.carriesSmallFiles = true
    var stream = Self.request(.wholeFiles([]))
    stream.streams = Self.file
    let all = [Self.request(.chunks(Self.file, [], session: "s")), small, stream, Self.request(.commit(Self.file))]
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
    requests.begin(Self.request(.commit(Self.file), named: "a.mov"), as: commit)
    requests.begin(Self.request(.prewarm), as: prewarm)
    #expect(requests.isPublishing(RelativePath("a.mov")) && !requests.isPublishing(RelativePath("b.mov")))
    _ = requests.end(prewarm)
    #expect(requests.isPublishing(RelativePath("a.mov")))
    requests.commit(commit, lacksChunks: true)
    #expect(requests[commit]?.lacksChunks == true)
    _ = requests.end(commit)
    #expect(!requests.isPublishing(RelativePath("a.mov")))
  }
}
