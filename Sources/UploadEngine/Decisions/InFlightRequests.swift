import FileModel
import Lookup
import OrderedCollections

/// A request that was sent and is not answered.
struct InFlightRequest: Hashable, Sendable {
  /// What a request publishes.
  struct Publication: Hashable, Sendable {
    var path: RelativePath
    var file: FileID
    var epoch: UInt64
    /// The request carries them.
    var bodyBytes: UInt64
  }

  let order: SendOrder
  /// The file that it was sent for; nil where it is for several, or for none.
  let file: FileID?
  /// The session that it ends.
  var ending: SessionToEnd?
  var sentAt: MonotonicTime
  /// What is published by it.
  var publishes: [Publication] = []
  /// A commit of which not all chunks are at the server, or will be: it publishes nothing.
  var lacksChunks = false
  /// Of a chunk or a whole file.
  var byteCount = 0
  /// Of these, what need not be sent because of compression.
  var savedBytes = 0
  /// Its files were compressed together.
  var sharedFrame: SharedFrame?
  /// Of these, what has arrived.
  var sentBytes: UInt64 = 0
  var carriesSmallFiles = false
  /// The file that is read while it is sent.
  var streams: FileID?
  /// Once it has ended: some of its body has gone out, as far as is known.
  var hasSentBytes = true
  /// A watchdog ended it.
  var isGivenUp = false
  /// Its connection was slower than others that are free; see `UploadSchedule+Stragglers`.
  var isStraggler = false
  var endpoint = EndpointID.first

  init(_ order: SendOrder, for file: FileID? = nil, sentAt: MonotonicTime, endpoint: EndpointID = .first) {
    self.order = order
    self.file = file
    self.sentAt = sentAt
    self.endpoint = endpoint
  }

  /// The files that it was sent for.
  var files: [FileID] {
    let wholeFiles = order.wholeFiles
    return wholeFiles.isEmpty ? file.map { [$0] } ?? [] : wholeFiles.map(\.file)
  }

  /// The only file whose bytes it carries.
  var onlyFile: FileID? { order.carriesBytes ? file : nil }

  /// Of the only file whose bytes it carries.
  var chunkIndices: [Int] { order.chunks?.chunks.map(\.index) ?? [0] }

  /// It is about the file, perhaps beside others.
  func concerns(_ id: FileID) -> Bool { file == id || order.wholeFiles.contains { $0.file == id } }
}

/// Requests in flight, and what they hold of the schedule's bounds until they end. Few: the bounds see to that.
struct InFlightRequests: Sendable {
  private var table: OrderedDictionary<HTTPRequestID, InFlightRequest> = [:]
  private var next: UInt64 = 1
  /// Names for which a publication is under way. One at a time: of two, the earlier one could come last at the receiver, and
  /// the name would show what it no longer is.
  private var names: LookupSet<RelativePath> = []
  /// With chunks of sessions.
  private(set) var chunkCount = 0
  /// With small files.
  private(set) var smallCount = 0
  /// Those that read their file while they send it.
  private(set) var streamCount = 0
  /// Sessions, questions, commits: ``SendOrder/isControl``.
  private(set) var controlCount = 0
  /// What may be published although no request for it is in flight.
  var ambiguous = AmbiguousPublications()

  var isEmpty: Bool { table.isEmpty }
  var values: some Collection<InFlightRequest> { table.values }

  subscript(id: HTTPRequestID) -> InFlightRequest? { table[id] }

  /// Something is being published under this name.
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

  /// Nil where it has ended before.
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

  /// So much of its bytes has arrived.
  mutating func arrived(_ bytes: UInt64, of id: HTTPRequestID) { table[id]?.sentBytes = bytes }

  /// A watchdog ends it.
  mutating func giveUp(_ id: HTTPRequestID) { table[id]?.isGivenUp = true }

  /// It is ended because its connection is slower than others that are free.
  mutating func endStraggler(_ id: HTTPRequestID) { table[id]?.isStraggler = true }

  /// A commit of which chunks are missing, or are not.
  mutating func commit(_ id: HTTPRequestID, lacksChunks: Bool) { table[id]?.lacksChunks = lacksChunks }

  /// A file has parts of the session again that this one is to end.
  mutating func keep(_ session: SessionToEnd, of id: HTTPRequestID) { table[id]?.ending = session }
}

/// In the order in which they were sent.
extension InFlightRequests: Sequence {
  func makeIterator() -> OrderedDictionary<HTTPRequestID, InFlightRequest>.Iterator { table.makeIterator() }
}
