/// Who writes a file, and what the world has been told of it: the decisions behind `opened`, `changed` and `settled`.
///
/// A pure value. The filesystem keeps it under the file's lock and sends what it answers, in order; a simulation of writers
/// keeps the same rules by using it.
package struct WriterActivity: Hashable, Sendable {
  /// Counts content mutations since the daemon started; bumped before each mutation's system call.
  package private(set) var epoch: UInt64
  /// Mutations whose system call has not returned.
  package private(set) var mutationsInFlight = 0
  /// Writable handles, counted from before the reply to open or create until their release.
  package private(set) var writableOpens = 0
  /// A revision has begun that no `settled` has closed yet.
  package private(set) var hasOpenRevision: Bool
  /// `opened` was sent and no `settled` since.
  package private(set) var isOpenedAnnounced = false
  /// The last name is gone, and the world knows: nothing more is said of this file.
  package private(set) var isGone = false

  /// What has to be said because of a transition.
  package enum PendingEvent: Hashable, Sendable {
    case opened
    case changed
    case settled
  }

  /// A file that was found in the spool: whole, and nothing of it has changed since the daemon started.
  package static var found: WriterActivity { WriterActivity(epoch: 0, hasOpenRevision: false) }

  /// A file that is being created, which is its first mutation; its first revision is open from the start.
  package static var created: WriterActivity { WriterActivity(epoch: 1, hasOpenRevision: true) }

  private init(epoch: UInt64, hasOpenRevision: Bool) {
    self.epoch = epoch
    self.hasOpenRevision = hasOpenRevision
  }

  /// Whether the next mutation begins a revision, which has to be made known before its system call.
  package var needsNewRevision: Bool { !hasOpenRevision && !isGone }

  /// Before the reply to open or create.
  package mutating func openedForWriting() -> PendingEvent? {
    writableOpens += 1
    guard writableOpens == 1, !isOpenedAnnounced, !isGone else { return nil }
    isOpenedAnnounced = true
    return .opened
  }

  /// At release, or when the opener was interrupted before it got its descriptor.
  package mutating func closedForWriting() -> PendingEvent? {
    writableOpens -= 1
    return settledIfQuiet()
  }

  /// Before a mutation's system call. `changed` for the first one of a revision.
  package mutating func beginMutation() -> PendingEvent? {
    let isFirst = needsNewRevision
    epoch &+= 1
    mutationsInFlight += 1
    if isFirst { hasOpenRevision = true }
    return isFirst ? .changed : nil
  }

  /// Whether the end of one mutation cannot settle the file, so that nothing needs to be said.
  package var endsMutationsSilently: Bool { writableOpens > 0 || mutationsInFlight > 1 || isGone }

  /// After a mutation's system call.
  package mutating func endMutation() -> PendingEvent? {
    mutationsInFlight -= 1
    return settledIfQuiet()
  }

  /// The holder of the only handles waits for the delivery of what was written, so that it has to be settled now: at a
  /// close(2) that comes before the release, or at an fsync(2). A later change begins a new revision.
  package mutating func settledForDelivery() -> PendingEvent? {
    guard mutationsInFlight == 0, hasOpenRevision, !isGone else { return nil }
    hasOpenRevision = false
    isOpenedAnnounced = false
    return .settled
  }

  /// A file that was made without any handle (mknod, or created for reading only).
  package mutating func madeWithoutWriter() -> PendingEvent? {
    settledIfQuiet()
  }

  /// The last name was removed.
  package mutating func lostLastName() {
    isGone = true
  }

  /// Whether everything that there is to say of its writers is said, although some may still have it open.
  package var isSettled: Bool { !hasOpenRevision && !isOpenedAnnounced && mutationsInFlight == 0 }

  /// Whether there is no writer and nothing is in flight.
  package var isQuiet: Bool { writableOpens == 0 && mutationsInFlight == 0 }

  /// A writer that came and went without writing is announced too: the listener has to know that it is gone.
  private mutating func settledIfQuiet() -> PendingEvent? {
    guard isQuiet, !isGone, hasOpenRevision || isOpenedAnnounced else { return nil }
    hasOpenRevision = false
    isOpenedAnnounced = false
    return .settled
  }
}
