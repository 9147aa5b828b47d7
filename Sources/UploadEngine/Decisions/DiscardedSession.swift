/// A session at the server that no file needs any more. The catalog has it until the server has been told, or has said that it does not
/// know it: a kill, an end while the server is away, or a server that does not listen leave it to the next run.
public struct DiscardedSession: Hashable, Sendable {
  /// What the server calls it.
  public var id: String
  /// Since when, in seconds since 1970.
  public var sinceSeconds: Int64
  /// Whose it is; nil where that is not known.
  public var owner: SessionOwner?

  /// A session that is to be ended.
  public init(id: String, sinceSeconds: Int64, owner: SessionOwner? = nil) {
    self.id = id
    self.sinceSeconds = sinceSeconds
    self.owner = owner
  }

  /// No client goes on with it at the server either: it has expired by now, or others look for it there (``OrphanedSessionPlan``).
  func isPast(atSeconds now: Int64) -> Bool { sinceSeconds < now - UploadConstants.sessionMaxAge.components.seconds }
}
