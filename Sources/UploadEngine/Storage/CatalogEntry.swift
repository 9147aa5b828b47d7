public import FileModel
public import TransferModel

/// Where the file stands, as far as a restart has to know.
public enum CatalogState: String, Sendable, CaseIterable {
  /// Its content has still to be delivered.
  case pending
  /// Delivered, with a receipt.
  case complete
  /// It failed and waits for a retry by hand.
  case failed
  /// Delivered, and the local copy is gone.
  case evicted
  /// Removed by the user.
  case removed
}

/// What the catalog remembers of one file.
public struct CatalogEntry: Sendable, Hashable {
  /// The file's identity.
  public var id: FileID
  /// Its name, or the last that it had.
  public var path: RelativePath
  /// The spool file's inode number.
  public var inode: UInt64
  /// The size when the entry was written.
  public var sizeBytes: UInt64
  /// The last change of content by then, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Counts complete contents.
  public var revision: UInt64
  /// Where it stands.
  public var state: CatalogState
  /// Names under which the present content is published.
  public var publishedPaths: [RelativePath]
  /// Proof of the last delivery of the present content.
  public var receipt: Receipt?
  /// Why it failed, for programs.
  public var failureCode: String?
  /// Why it failed, for people.
  public var failureMessage: String?
  /// When the receipt arrived, milliseconds since 1970.
  public var completedAtMilliseconds: Int64?
  /// When it was first seen.
  public var openedAtMilliseconds: Int64?
  /// When its last writer closed it.
  public var closedAtMilliseconds: Int64?

  /// Why the content in the spool is not whole; nil when nothing speaks against it.
  public var doubt: Interruption?
  /// The upload that may hold parts of it which are nowhere else.
  public var pointer: SessionPointer?
  /// The session of which a publication may be the present content; empty where there is none, nil where that is not known, as in rows
  /// of earlier versions.
  public var session: String?

  /// A file of which the place in the spool is known.
  public init(
    id: FileID, path: RelativePath, inode: UInt64, sizeBytes: UInt64, modifiedNanoseconds: Int64, revision: UInt64,
    state: CatalogState, publishedPaths: [RelativePath] = [], receipt: Receipt? = nil, failureCode: String? = nil,
    failureMessage: String? = nil, completedAtMilliseconds: Int64? = nil, openedAtMilliseconds: Int64? = nil,
    closedAtMilliseconds: Int64? = nil, doubt: Interruption? = nil, pointer: SessionPointer? = nil,
    session: String? = nil
  ) {
    self.doubt = doubt
    self.pointer = pointer
    self.session = session
    self.id = id
    self.path = path
    self.inode = inode
    self.sizeBytes = sizeBytes
    self.modifiedNanoseconds = modifiedNanoseconds
    self.revision = revision
    self.state = state
    self.publishedPaths = publishedPaths
    self.receipt = receipt
    self.failureCode = failureCode
    self.failureMessage = failureMessage
    self.completedAtMilliseconds = completedAtMilliseconds
    self.openedAtMilliseconds = openedAtMilliseconds
    self.closedAtMilliseconds = closedAtMilliseconds
  }
}
