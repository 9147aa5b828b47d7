public import FileModel
public import TransferModel

/// What the driver is to do, in the given order. Values only; the bytes of a chunk stay with the driver under a
/// ``ReadID``.
public enum UploadAction: Hashable, Sendable {
  /// Read and hash a chunk into a buffer; answer with ``UploadSchedule/chunkRead(_:result:at:)``.
  case read(ReadOrder)
  /// Find the chunks that lie in holes; answer with ``UploadSchedule/holesFound(_:_:_:at:)``.
  case findHoles(HoleOrder)
  /// The buffer of this read is free again.
  case release(ReadID)
  /// Keep at most so many buffers of the usual length in memory, or as many bytes in others. An action like the others,
  /// so that no earlier read finds its buffer gone.
  case resizeBuffers(Int)
  /// Send requests, begun together; answer each with ``UploadSchedule/requestCompleted(_:outcome:connection:at:)``.
  case send([RequestOrder])
  /// End a request early; it is still answered.
  case cancel(HTTPRequestID)
  /// End a request early unless so many bytes of its body have gone out: then its effect cannot be reverted.
  case cancelUnsent(HTTPRequestID, bodyBytes: UInt64)
  /// Make the file's catalog entry durable; answer with ``UploadSchedule/recorded(_:receipt:at:)``.
  case record(FileID)
  /// Drop the file's catalog entry and its names.
  case forget(FileID)
  /// Drop the file's names: it will not be sent again.
  case forgetNames(FileID)
  /// Drop the catalog entry of a file that goes to other destinations only; its names stay.
  case forgetEntry(FileID)
  /// Make the file's resume record durable, as it is at that time.
  case saveResume(FileID)
  /// Drop the file's resume record.
  case removeResume(FileID)
  /// Make durable that a session is to be ended, before what comes after it in this list is dropped.
  case noteDiscarded(DiscardedSession)
  /// Drop that record: the server has ended the session, or does not know it.
  case forgetDiscarded(String)
  /// Query an open file's size; answer with ``UploadSchedule/measured(_:at:)``.
  case measure(FileID)
  /// Report the changes in the chunks of a file that is being written; answer with ``UploadSchedule/grew(_:_:at:)``.
  /// `anew` asks for every chunk.
  case checkGrowth(FileID, chunkBytes: Int, anew: Bool)
  /// Do not reuse the idle connections: their state is not known.
  case renewConnections
  /// Have the names of the destination's servers asked for. Nothing is sent to them.
  case askForNames
  /// Give up the connections whose way has gone with a change of the network.
  case networkChanged
  /// Query the progress of the requests; answer with ``UploadSchedule/progressed(_:at:)``.
  case checkProgress
  /// The file's names have changed, for the status tree.
  case showNames(FileID)
  /// The file's status has changed.
  case showStatus(FileID)
  /// The summary has changed, and no file's status.
  case showSummary
  /// The file is no longer shown.
  case hide(FileID)
  /// Make the catalog's entries of these files durable, as they are at that time; answer with
  /// ``UploadSchedule/unloaded(_:at:)``, and let go of the files that it returns.
  case unload([FileID])
  /// Check these unloaded files as if the scan had found them; answer each with ``UploadSchedule/loadEnded(_:_:at:)``.
  case load([FileID])
  /// Scan the spool for the missing unloaded files; answer with ``UploadSchedule/soughtInVain(_:at:)``.
  case seek
  /// Ask for the destination's limits; answer with ``UploadSchedule/learn(_:at:)``, if it reports them.
  case askForLimits(HTTPRequestID)
  /// For the log.
  case report(UploadReport)

  /// The action may wait some milliseconds: nothing is sent or read for it, and its content is queried when it is done.
  var isPatient: Bool {
    switch self {
    case .record, .showStatus, .showSummary, .report, .unload, .load, .seek: true
    default: false
    }
  }
}

/// One chunk to read.
public struct ReadOrder: Hashable, Sendable {
  /// The read's name.
  public var id: ReadID
  /// The file.
  public var file: FileID
  /// The epoch whose bytes are wanted; with any other the read has failed.
  public var epoch: UInt64
  /// The epoch is the chunk's own: the rest of the file may change.
  public var isOfGrowingFile = false
  /// Where the chunk starts.
  public var offset: UInt64
  /// How long it is; at least 1.
  public var byteCount: Int
  /// The encodings that may be used, where they make the bytes shorter.
  public var compression = ChunkCompression.none
  /// The chunk is read into a small buffer.
  public var isSmall = false
  /// The length of the buffer otherwise.
  public var bufferBytes = 0

  /// The receiver decodes what is compressed.
  public var mayCompress: Bool { compression.isPossible }
}

/// A settled file to search for holes.
public struct HoleOrder: Hashable, Sendable {
  /// The file.
  public var file: FileID
  /// The epoch whose holes are wanted.
  public var epoch: UInt64
  /// The file's size.
  public var sizeBytes: UInt64
  /// The length of a chunk.
  public var chunkBytes: Int

  /// A file at an epoch.
  public init(file: FileID, epoch: UInt64, sizeBytes: UInt64, chunkBytes: Int) {
    self.file = file
    self.epoch = epoch
    self.sizeBytes = sizeBytes
    self.chunkBytes = chunkBytes
  }
}

/// A request and its name.
public struct RequestOrder: Hashable, Sendable {
  /// The request's name.
  public var id: HTTPRequestID
  /// What is sent.
  public var order: SendOrder
  /// The request must open a connection: those that exist do not move.
  public var opensConnection = false
  /// The address to send it to.
  public var endpoint = EndpointID.first
  /// The record of the request has to be on the disk before it is sent (``DestinationAbilities/atMostOnceScope``).
  public var isAtMostOnce = false
}

/// One chunk in a request, alone or with others of its session.
public struct ChunkOrder: Hashable, Sendable {
  /// Its position.
  public var index: Int
  /// Digests of its bytes.
  public var digest: ChunkDigest
  /// Its bytes.
  public var read: ReadID

  /// A chunk whose bytes are in a buffer.
  public init(index: Int, digest: ChunkDigest, read: ReadID) {
    self.index = index
    self.digest = digest
    self.read = read
  }
}

/// One chunk of a session to send.
public struct SessionChunk: Hashable, Sendable {
  /// The session.
  public var session: SessionIdentity
  /// Which chunk, and where its bytes are.
  public var chunk: ChunkOrder
  /// The chunk's position in its append sequence.
  public var position: AppendPosition

  /// A chunk whose bytes are in a buffer.
  public init(session: SessionIdentity, _ chunk: ChunkOrder, position: AppendPosition = AppendPosition()) {
    self.session = session
    self.chunk = chunk
    self.position = position
  }
}

/// A file to send in one request.
public struct WholeFileOrder: Hashable, Sendable {
  /// The file.
  public var file: FileID
  /// The epoch that is sent.
  public var epoch: UInt64
  /// The same for every attempt of one content.
  public var nonce: [UInt8]
  /// The name to publish.
  public var path: RelativePath
  /// Digests of its bytes.
  public var digest: ChunkDigest
  /// Its bytes; nil when it is empty, or streamed.
  public var read: ReadID?
  /// Its size, when the file is read while it is sent.
  public var streamedBytes: UInt64?
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// The files of the request are compressed together.
  public var sharesFrame = false
}

/// How a read ended.
public enum ReadOutcome: Hashable, Sendable {
  /// The bytes are those of the epoch that was asked for.
  case success(ChunkDigest)
  /// The file changed before, after or while it was read.
  case changed
  /// The spool could not be read.
  case failed(FileContentsError)
}

/// One line for the log, decided where the facts are known.
public enum UploadReport: Hashable, Sendable {
  /// A file was published and its receipt is durable.
  case delivered(FileID, RelativePath, Receipt)
  /// A file waits and will be tried again.
  case retrying(FileID, RelativePath, FileStatus.Failure)
  /// A chunk of a file has not arrived, for the first time since the file is sent, and is sent again; the others
  /// continue.
  case chunkSentAgain(FileID, RelativePath, FileStatus.Failure)
  /// What was sent of a file is useless and is sent again, for the `count`th time; or nothing of it was sent, and it is tried again.
  case setBack(FileID, RelativePath, FileStatus.Failure, count: Int, wasSent: Bool)
  /// What was sent of a file before it was due was useless for the `count`th time; nothing more of it is sent until it
  /// is due.
  case leftForTheEnd(FileID, RelativePath, FileStatus.Failure, count: Int)
  /// A request was refused for its length; from now on none has more bytes than this.
  case requestsShortened(bytes: Int, FileStatus.Failure)
  /// The server has everything of a file, and has not reported yet whether it is published.
  case publishing(FileID, RelativePath, for: Duration)
  /// A file needs a user's action; it is kept.
  case failed(FileID, RelativePath, FileStatus.Failure)
  /// A file that is being written has outgrown what the destination takes; recording continues, and the file is kept.
  case outgrown(FileID, RelativePath, FileStatus.Failure)
  /// A folder of the spool cannot be read; the scan tries it again.
  case scanFailing(RelativePath, FileStatus.Failure)
  /// The spool's disk does not take what was written to a file.
  case refusedByDisk(FileID, RelativePath, FileStatus.Failure)
  /// The disk has taken it by now.
  case takenByDisk(FileID, RelativePath)
  /// A file was not finished by its writer; it is kept.
  case interrupted(FileID, RelativePath, FileStatus.Failure)
  /// At the start so many files lay in the spool of which nothing proves that they were finished; they are kept.
  case unproven(Int)
  /// The catalog was lost, or replaced by an older copy. It does not record so many files of the spool; so many are
  /// compared with what it records as delivered.
  case forgotten(Int, compared: Int)
  /// There are more files than memory holds; `filesMax` is its limit.
  case beyondMemory(filesMax: Int)
  /// An interrupted file was removed from the spool, by rule.
  case discarded(FileID, RelativePath, FileStatus.Failure)
  /// A file made no progress for a minute; it connects anew and asks the server.
  case stuck(FileID, RelativePath)
  /// The last chunks of a file wait on a slow connection; they go again over another one.
  case straggling(FileID, RelativePath)
  /// The disk is full: parts of a file that the server holds are given up in the spool, by rule.
  case releasing(FileID, RelativePath)
  /// The server refuses to sync more of the file to its disk: nothing more is given up.
  case notReleasing(FileID, RelativePath, FileStatus.Failure)
  /// The destination as a whole is unavailable; everything waits.
  case destinationUnavailable(FileStatus.Failure)
  /// The destination refuses the credentials, as a trial has shown before there was a file.
  case credentialsRefused(FileStatus.Failure)
  /// The destination is available again.
  case destinationAvailable
  /// Nothing was done for so long: the machine has slept, or the program did not run.
  case resumed(after: Duration)
  /// The resume record of a file cannot be used, for this reason; the file is sent again.
  case notResumed(FileID, RelativePath, String)
  /// So many chunks that the spool's disk has lost are delivered as the server has them.
  case takenOver(FileID, RelativePath, chunks: Int)
  /// A chunk of a file was chosen and could not be sent: a mistake of the schedule, which continues without the file.
  case notSent(FileID, RelativePath)
  /// A file is in an impossible state: a mistake of the schedule, or of its caller; the engine continues.
  case contradiction(String)
  /// A file that the catalog had as pending is no longer in the spool.
  case missingFromSpool(FileID, RelativePath)
}
