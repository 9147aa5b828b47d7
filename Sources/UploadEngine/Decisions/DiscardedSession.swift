import TransferModel

/// A session at the server that no file needs any more. The catalog keeps it until the server has ended it, or does not
/// know it. After a kill, an exit while the server is away, or a refusal by the server, the next run ends it.
public struct DiscardedSession: Hashable, Sendable {
  /// The server's name for the session.
  public var id: String
  /// Since when, in seconds since 1970.
  public var sinceSeconds: Int64
  /// The owner of the session; nil where that is not known.
  public var owner: SessionOwner?

  /// A session that is to be ended.
  public init(id: String, sinceSeconds: Int64, owner: SessionOwner? = nil) {
    self.id = id
    self.sinceSeconds = sinceSeconds
    self.owner = owner
  }

  /// No client continues the session at the server either: it has expired by now, or is found there as an orphan
  /// (``OrphanedSessionPlan``).
  func isPast(atSeconds now: Int64) -> Bool { sinceSeconds < now - UploadConstants.sessionMaxAge.components.seconds }
}
