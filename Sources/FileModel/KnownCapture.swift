/// What earlier runs knew of a capture, beside what its file says of itself.
public struct KnownCapture: Hashable, Sendable {
  /// Its identity.
  public var id: FileID
  /// Its name, or the last that it had.
  public var path: RelativePath
  /// The size by then.
  public var sizeBytes: UInt64
  /// The last change of content by then, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Why its content was not whole; nil when nothing spoke against it.
  public var doubt: Interruption?
  /// The upload that holds, or may hold, parts of it which are nowhere else.
  public var pointer: SessionPointer?
  /// Its copy in the spool was given up after its delivery.
  public var isEvicted = false
  /// The spool's disk was known to have what is described here, so that a power cut took nothing of it.
  public var isOnDisk = true
  /// The instance of the spool's filesystem in which this was recorded; nil where that was another one than the last, or is not known.
  public var recordedIn: String?

  /// Collects what is known.
  public init(
    id: FileID, path: RelativePath, sizeBytes: UInt64, modifiedNanoseconds: Int64, doubt: Interruption? = nil,
    pointer: SessionPointer? = nil
  ) {
    self.id = id
    self.path = path
    self.sizeBytes = sizeBytes
    self.modifiedNanoseconds = modifiedNanoseconds
    self.doubt = doubt
    self.pointer = pointer
  }

  /// Its content was not whole, or may not have been whole in the spool.
  public var isDoubtful: Bool { doubt != nil || pointer != nil }
}

/// What earlier runs knew of captures cannot be read at this moment: it is neither there nor not there.
public struct KnownCapturesUnreadable: Error {
  /// Nothing but that.
  public init() {}
}

/// What earlier runs knew of all captures: asked of files that do not say who they are, and of a spool that was moved.
public struct KnownCaptures: Sendable {
  /// Those that were not whole, or not as a whole in the spool, by their names.
  public var doubtful: [RelativePath: KnownCapture] = [:]
  /// All of them, by their names.
  public var all: @Sendable () throws(KnownCapturesUnreadable) -> [RelativePath: KnownCapture] = { [:] }
  /// One of them; nil where it is not known.
  public var capture: @Sendable (FileID) throws(KnownCapturesUnreadable) -> KnownCapture? = { _ in nil }
  /// What was known was lost, and nothing is known now.
  public var areLost = false

  /// Nothing, as in a new spool.
  public init() {}
}
