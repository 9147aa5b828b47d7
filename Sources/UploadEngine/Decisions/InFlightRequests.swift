import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// A request that was sent and is not answered yet.
struct InFlightRequest: Hashable, Sendable {
  /// What a request publishes.
  struct Publication: Hashable, Sendable {
    var path: RelativePath
    var file: FileID
    var epoch: UInt64
    /// True when the request carries the chunk or file bytes.
    var bodyBytes: UInt64
  }

  /// What had arrived at a time.
  struct Progress: Hashable, Sendable {
    var time: MonotonicTime
    var sentBytes: UInt64
  }

  let order: SendOrder
  /// The file that the request was sent for; nil where it is for several, or for none.
  let file: FileID?
  /// The session that the request ends.
  var ending: SessionToEnd?
  var sentAt: MonotonicTime
  /// The publications that the request makes.
  var publishes: [Publication] = []
  /// A commit of which not all chunks are, or will be, at the server: it publishes nothing.
  var lacksChunks = false
  /// Bytes of a chunk or a whole file.
  var byteCount = 0
  /// Of these, the bytes saved by compression.
  var savedBytes = 0
  /// The shared frame of files that were compressed together.
  var sharedFrame: SharedFrame?
  /// Of these, the bytes that have arrived.
  var sentBytes: UInt64 = 0
  var carriesSmallFiles = false
  /// The file that is read while it is sent.
  var streams: FileID?
  /// Set at the end: some of the body has gone out, as far as is known.
  var hasSentBytes = true
  /// A watchdog has ended the request.
  var isGivenUp = false
  /// Its pace is judged by what arrives from then on.
  var judgedFrom: Progress?
  /// The request's connection was slower than others that are free; see `UploadSchedule+Stragglers`.
  var isStraggler = false
  var endpoint = EndpointID.first

  init(_ order: SendOrder, for file: FileID? = nil, sentAt: MonotonicTime, endpoint: EndpointID = .first) {
    self.order = order
    self.file = file
    self.sentAt = sentAt
    self.endpoint = endpoint
  }

  /// The files that the request was sent for.
  var files: [FileID] {
    let wholeFiles = order.wholeFiles
    return wholeFiles.isEmpty ? file.map { [$0] } ?? [] : wholeFiles.map(\.file)
  }

  /// The only file whose bytes the request carries.
  var onlyFile: FileID? { order.carriesBytes ? file : nil }

  /// The chunk indices of the only file whose bytes the request carries.
  var chunkIndices: [Int] { order.chunks?.chunks.map(\.index) ?? [0] }

  /// The request concerns the file, perhaps beside others.
  func concerns(_ id: FileID) -> Bool { file == id || order.wholeFiles.contains { $0.file == id } }
}

/// Requests in flight, and their share of the schedule's bounds until they end. The bounds keep them few.
struct InFlightRequests: Sendable {
  private var table: OrderedDictionary<HTTPRequestID, InFlightRequest> = [:]
  private var next: UInt64 = 1
  /// Names with a publication in flight. One at a time: of two, the earlier one could arrive last at the receiver, and
  /// the name would show an outdated content.
  private var names: LookupSet<RelativePath> = []
  /// Requests with chunks of sessions.
  private(set) var chunkCount = 0
  /// Requests with small files.
  private(set) var smallCount = 0
  /// Requests that read their file while they send it.
  private(set) var streamCount = 0
  /// Sessions, queries, commits: ``SendOrder/isControl``.
  private(set) var controlCount = 0
  /// Publications that may take effect although no request for them is in flight.
  var ambiguous = AmbiguousPublications()

  var isEmpty: Bool { table.isEmpty }
  var values: some Collection<InFlightRequest> { table.values }

  subscript(id: HTTPRequestID) -> InFlightRequest? { table[id] }

  /// A publication under this name is in flight.
  func isPublishing(_ name: RelativePath) -> Bool { names.contains(name) }

  // MARK: - Begin and end

  /// An id that none has had.
  mutating func makeID() -> HTTPRequestID {
    defer { next += 1 }
    return HTTPRequestID(next)
  }

  mutating func begin(_ request: InFlightRequest, as id: HTTPRequestID) {
    table[id] = request
    names.formUnion(request.publishes.map(\.path))
    count(request, by: 1)
  }

  /// Ends the request; nil where it has ended before.
  mutating func end(_ id: HTTPRequestID) -> InFlightRequest? {
    guard let request = table.removeValue(forKey: id) else { return nil }
    names.subtract(request.publishes.map(\.path))
    count(request, by: -1)
    return request
  }

  private mutating func count(_ request: InFlightRequest, by step: Int) {
    if request.order.chunks != nil { chunkCount += step }
    if request.carriesSmallFiles { smallCount += step }
    if request.streams != nil { streamCount += step }
    if request.order.isControl { controlCount += step }
  }

  // MARK: - Meanwhile

  /// So many of the request's bytes have arrived.
  mutating func arrived(_ bytes: UInt64, of id: HTTPRequestID) { table[id]?.sentBytes = bytes }

  /// The request's pace is judged by what arrives from this time on, or not at all.
  mutating func judge(_ id: HTTPRequestID, from time: MonotonicTime?) {
    guard let sentBytes = table[id]?.sentBytes else { return }
    table[id]?.judgedFrom = time.map { InFlightRequest.Progress(time: $0, sentBytes: sentBytes) }
  }

  /// A watchdog ends the request.
  mutating func giveUp(_ id: HTTPRequestID) { table[id]?.isGivenUp = true }

  /// The request is ended because its connection is slower than others that are free.
  mutating func endStraggler(_ id: HTTPRequestID) { table[id]?.isStraggler = true }

  /// Notes whether chunks of a commit are missing.
  mutating func commit(_ id: HTTPRequestID, lacksChunks: Bool) { table[id]?.lacksChunks = lacksChunks }

  /// A file has parts of the session again that this request is to end.
  mutating func keep(_ session: SessionToEnd, of id: HTTPRequestID) { table[id]?.ending = session }
}

/// In the order in which they were sent.
extension InFlightRequests: Sequence {
  func makeIterator() -> OrderedDictionary<HTTPRequestID, InFlightRequest>.Iterator { table.makeIterator() }
}
