import FileModel
import Integrity
import TransferModel

extension FileUpload {
  struct Progress: Hashable, Sendable {
    /// What had been prepared when the first chunk went out.
    struct Warmth: Hashable, Sendable {
      /// There was a connection.
      var isWarm = false
      /// How long its stages took.
      var stages: ConnectionStages?
      /// How long the opening of the session took, while the file was written; 0 where there was none.
      var sessionMicroseconds: UInt32 = 0
    }

    /// When the first bytes of the file went out.
    private(set) var startedAt: Int64?
    /// The same on the monotonic clock; nil where some bytes had gone out in an earlier run.
    private(set) var beganAt: MonotonicTime?
    /// The root of the present content, once every chunk is known.
    private(set) var merkleRoot: Digest32?
    private(set) var chainTip: Digest32?
    private(set) var retriedChunks = 0
    private(set) var reusedChunks = 0
    /// Bytes sent again at the end of an upload, because their connection was slow.
    private(set) var stragglingBytes = 0
    private(set) var rate = RateMeter()
    /// Bytes of the present content that the rates have counted.
    private(set) var countedBytes: UInt64 = 0
    /// The latest encoding in which some of the present content has travelled; nil where all of it went uncompressed.
    private(set) var encoding: ChunkEncoding?
    /// Bytes that compression has saved of a delivered content; before that its chunks have the number.
    private(set) var savedBytes: UInt64 = 0
    /// Bytes that the network took of a file that is being streamed.
    private(set) var streamedBytes: UInt64 = 0
    private(set) var protocolName = ""
    private(set) var warmth = Warmth()
    /// Nothing more is sent of it before this time, or before it is complete.
    private(set) var earlyRest: MonotonicTime?
    /// Nothing more of the file is sent before it is complete.
    private(set) var isLeftForTheEnd = false
    /// How often an upload that takes one chunk after another was restarted because of rewritten bytes.
    private(set) var rowsBegunAnew = 0
    var setbacks = Setbacks()
    /// Chunks that may be in flight together; 0 when nothing bounds them.
    private(set) var chunksAllowed = 0
    /// What the catalog records of the present content.
    private(set) var seal: ContentSeal?
    /// The delivery that the file is compared with before anything of it is sent.
    private(set) var delivered: DeliveredContent?
    /// A user wants the file delivered again, once it is known to be whole.
    private(set) var isToResend = false
    /// A user wants the present content published as it is.
    private(set) var userRequest: UserRequest?
    /// Why the accepted content was not whole. Until the spool has the user's decision, the file keeps that reason.
    private(set) var acceptedInterruption: Interruption?
    /// Bytes that the spool's disk has lost and the server may have; kept until delivery.
    private(set) var lost: MissingBytes?
    /// Chunks that the server has and the spool's disk has lost.
    private(set) var takenOverChunks = 0
    /// The content, by its epoch, that a session may have published. Before the content changes, the catalog records
    /// that no session of it counts any more.
    private(set) var committedEpoch: UInt64?
    /// Names that the file has lost while something was being published under them.
    private(set) var formerPaths: [RelativePath] = []
    /// Chunks of the present content had gone out in an earlier run.
    private(set) var isResumed = false
    /// The latest publication of this content or an earlier one, in this run.
    private(set) var latest: LatestPublication?

    /// The content is another one.
    mutating func contentChanged() {
      (merkleRoot, chainTip, encoding, savedBytes) = (nil, nil, nil, 0)
      setbacks.contentChanged()
      (earlyRest, isLeftForTheEnd, rowsBegunAnew, chunksAllowed) = (nil, false, 0, 0)
      (userRequest, seal, delivered) = (nil, nil, nil)
      (acceptedInterruption, lost, takenOverChunks) = (nil, nil, 0)
      (streamedBytes, stragglingBytes, countedBytes) = (0, 0, 0)
      (startedAt, beganAt, isResumed) = (nil, nil, false)
    }

    /// The file is complete: what was left for then is due.
    mutating func endReached() { isLeftForTheEnd = false }

    /// A request for a name does not apply to others; the file is to be published as it is.
    mutating func keepRequest(under names: [RelativePath]) {
      if case .named(let name)? = userRequest, !names.contains(name) { userRequest = .asIs }
    }

    /// It is decided anew how the content travels.
    mutating func planned() {
      (merkleRoot, chainTip, encoding, savedBytes) = (nil, nil, nil, 0)
      (streamedBytes, countedBytes) = (0, 0)
    }

    /// An earlier run has sent some of the content.
    mutating func resumed() { isResumed = true }

    /// Every chunk is known.
    mutating func proved(merkleRoot: Digest32?, chainTip: Digest32?) {
      self.merkleRoot = merkleRoot
      self.chainTip = chainTip
    }

    /// The content is published. The receipt has its root, its chain and its bytes from now on.
    mutating func published() {
      countedBytes = 0
      (seal, merkleRoot, chainTip) = (nil, nil, nil)
      setbacks.ended()
    }

    /// A request goes out that may publish the content of this epoch.
    mutating func commits(epoch: UInt64) { committedEpoch = epoch }

    /// The content of this epoch may have been published in an earlier run.
    mutating func mayBePublished(epoch: UInt64) { committedEpoch = epoch }

    /// Chunks that the server has were not sent.
    mutating func chunkReused() { reusedChunks += 1 }

    /// Chunks are sent once more.
    mutating func chunksRetried(_ count: Int = 1) { retriedChunks += count }

    /// So many bytes were sent again at the end.
    mutating func straggled(_ bytes: Int) { stragglingBytes = bytes }

    /// The network has taken so much of the file.
    mutating func streamed(_ bytes: UInt64) { streamedBytes = bytes }

    /// The content was found at the server up to here, and was not sent.
    mutating func found(_ bytes: UInt64) { countedBytes = bytes }

    /// So much of the content has arrived, which is so much more than before.
    mutating func sent(_ bytes: UInt64, more: Int, at now: MonotonicTime) {
      countedBytes = bytes
      rate.add(more, at: now)
    }

    /// Some of the content has travelled in this encoding.
    mutating func travelled(in encoding: ChunkEncoding?) { self.encoding = encoding }

    /// The content was delivered with so many bytes fewer.
    mutating func saved(_ bytes: UInt64) { savedBytes = bytes }

    /// The connection that has taken some of the file.
    mutating func connected(_ protocolName: String) { self.protocolName = protocolName }

    /// The first chunk went over a connection that was there, or over a new one.
    mutating func foundConnection(isWarm: Bool, stages: ConnectionStages?) {
      (warmth.isWarm, warmth.stages) = (isWarm, isWarm ? stages : nil)
    }

    /// A session was opened while the file was written, which took so long.
    mutating func sessionOpened(after time: Duration) { warmth.sessionMicroseconds = max(1, time.clampedMicroseconds) }

    /// Nothing more is sent of a file that is being written before this time.
    mutating func restEarly(until time: MonotonicTime) { earlyRest = time }

    /// The file is complete, and no rest of early chunks applies.
    mutating func endEarlyRest() { earlyRest = nil }

    /// Nothing more of the file is sent before it is complete.
    mutating func leaveForTheEnd() { isLeftForTheEnd = true }

    /// An upload that takes one chunk after another begins anew.
    mutating func rowBegunAnew() { rowsBegunAnew += 1 }

    /// So many chunks may be in flight together; 0 when nothing bounds them.
    mutating func allowChunks(_ count: Int) { chunksAllowed = count }

    /// What the catalog is to record of the content; nil where it is to record nothing.
    mutating func recordSeal(_ seal: ContentSeal?) { self.seal = seal }

    /// The content is to be compared with this delivery; nil where it cannot be.
    mutating func compare(with delivered: DeliveredContent?, resends: Bool = false) {
      self.delivered = delivered
      isToResend = resends && delivered != nil
    }

    /// The comparison is over.
    mutating func endComparing() { (delivered, isToResend) = (nil, false) }

    /// What was to be delivered again was, or need not be.
    mutating func endResending() { isToResend = false }

    /// The delivery that was compared is recorded.
    mutating func comparedRecorded() { delivered = nil }

    /// A user wants the content published.
    mutating func request(_ request: UserRequest) { userRequest = request }

    /// No user wants it any longer.
    mutating func dropRequest() { userRequest = nil }

    /// The content counts as whole; of what its disk has lost the server may have these bytes.
    mutating func accept(_ interruption: Interruption?, lost: MissingBytes?) {
      self.lost = lost
      acceptedInterruption = interruption
    }

    /// The server has a chunk that the disk has lost.
    mutating func chunkTakenOver() { takenOverChunks += 1 }

    /// It is known which bytes were delivered.
    mutating func endLost() {
      lost = nil
      if takenOverChunks > 0 { acceptedInterruption = nil }
    }

    /// Something may still be published under these names, which the file has lost.
    mutating func loseNames(_ names: [RelativePath]) {
      if names != formerPaths { formerPaths = names }
    }

    /// A publication of the file has ended.
    mutating func publicationEnded(_ publication: LatestPublication) { latest = publication }

    /// The next publication does not wait for others.
    mutating func forgetLatest() { latest = nil }

    /// Nothing of the file was processed. The catalog's row has the seal.
    var isUntouched: Bool {
      var others = self
      others.seal = nil
      return others == Progress()
    }

    /// Bytes of the file go out, the first ones or later ones.
    mutating func begin(at now: ClockReading) {
      guard startedAt == nil else { return }
      startedAt = now.wallMilliseconds
      beganAt = isResumed ? nil : now.monotonic
    }
  }
}
