/// A page of the sessions that are open at a destination, whichever client began them.
public struct SessionPage: Hashable, Sendable {
  /// One of them.
  public struct Session: Hashable, Sendable {
    /// What ``Destination/listedID(ofSession:)`` makes of ``SessionIdentity/id``.
    public var id: String
    /// When it began by the server's clock, seconds since 1970; nil when the server does not say.
    public var begunAtSeconds: Int64?

    /// A session in a list.
    public init(id: String, begunAtSeconds: Int64?) {
      self.id = id
      self.begunAtSeconds = begunAtSeconds
    }
  }

  /// The sessions of this page.
  public var sessions: [Session]
  /// Where the next page begins; nil after the last.
  public var next: String?

  /// A page of a list.
  public init(sessions: [Session], next: String? = nil) {
    self.sessions = sessions
    self.next = next
  }
}
