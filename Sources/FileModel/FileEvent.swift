/// What the filesystem tells the world about its regular files. It does not know who listens, or that uploads exist.
///
/// Events of one file arrive in the order in which they happened; each snapshot was taken under the inode's lock.
public enum FileEvent: Sendable, Hashable {
  /// The first writable handle was opened (the count went from 0 to 1), whether or not anything will be written.
  case opened(FileSnapshot)
  /// The first mutation since the file was last settled is about to happen: what was read of it before is stale.
  case changed(FileSnapshot)
  /// What happened to the chunks of a file that is about to be settled, if they were followed
  /// (``FileContents/growth(of:chunkBytes:anew:)``): complete up to the epoch of the `settled` that follows at once.
  case grown(GrowthReport)
  /// The last writable handle was released, nothing is in flight and the file has a name (docs/semantics.md, S33a,
  /// without the rule on temporary names). Also sent for a file that was truncated by path or made by mknod, without
  /// any handle.
  case settled(FileSnapshot)
  /// What was settled is not whole, or it is unknown whether it is: the spool's disk did not take it. Of the same content
  /// `settled` is said again when that is over.
  case unsettled(FileSnapshot)
  /// Names were added, removed or changed by link, unlink or rename; at least one is left.
  case namesChanged(FileSnapshot)
  /// Times or mode changed while the content did not.
  case attributesChanged(FileSnapshot)
  /// The spool's disk has what was settled, and the names that it has now: a power cut takes nothing of it any more.
  case onDisk(FileSnapshot)
  /// The last name is gone. Its bytes may still be read through handles that are open.
  case removed(FileID)
  /// Another program has taken the file out of the spool, under its last name.
  case vanished(FileID)
  /// A write failed: unless its writer makes it good, what the file holds is not what was meant.
  case writeFailed(FileID, Interruption)
  /// The local copy of a delivered file was removed to make room; its status stays.
  case evicted(FileID)
  /// A file that lay in the spool when the daemon started, found by the scan. No process has it open.
  case found(FileSnapshot)
  /// A folder of the spool, or something in it, could not be read by the scan, with this errno. It is read again; until then
  /// it is unknown what else there is.
  case scanFailing(RelativePath, errno: Int32)
  /// The scan of the spool has ended: whatever the catalog holds and `found` did not name no longer exists.
  case scanEnded
}

/// Receives ``FileEvent``s on the filesystem's own threads.
///
/// - Important: these methods run inside a filesystem call of the capture tool. They must be quick, must not block on the
///   network, and must not call back into the filesystem (but for ``FileContents/growth(of:chunkBytes:anew:)``).
public protocol FileEventSink: Sendable {
  func handle(_ event: FileEvent)

  /// Called before the first mutation of a file that was settled, before its system call: the sink makes durable that an
  /// earlier receipt no longer covers the content. A crash between the mutation and the next ``handle(_:)`` then cannot leave
  /// a changed file marked as delivered. May wait for the local disk, never for the network. False when the disk does not
  /// take it: then the content does not change.
  func contentWillChange(_ id: FileID) -> Bool

  /// After a ``contentWillChange(_:)`` that was true: it does not change, and what was said of it before holds again.
  func contentStays(_ id: FileID)

  /// The sink has forgotten the file, for want of memory: what is about to happen to it is told only once it was met
  /// (``FileContents/rescan(at:)``).
  func isUnloaded(_ id: FileID) -> Bool

  /// What is about to happen to the file is told afterwards: the sink does not forget it meanwhile, until ``endKeeping(_:)``.
  func keep(_ id: FileID)

  /// It was told, or did not happen.
  func endKeeping(_ id: FileID)

  /// A folder stands at another path now: files below it of which the sink has forgotten all are told of no more than that.
  func folderMoved(to path: RelativePath)

  /// Returns once more files may be said to be found; the caller may wait for the disk.
  func waitForRoom()

  /// Files whose local copy may be removed now to make room, at most so many, in the order in which to remove them (delivered, receipt
  /// durable, oldest first). Called when a write would go below the spool's reserve.
  func evictionCandidates(countMax: Int) -> [EvictionCandidate]

  /// None of the candidates is left: those that the sink has forgotten are to come back. False where there is none.
  func loadCandidates() -> Bool

  /// Sizes of delivered files of which the sink has forgotten all.
  var unloadedBytes: UInt64 { get }

  /// Chunks of files that are not delivered yet which the destination holds for certain, so that their place on the disk may
  /// be given back (by rule); at most so many bytes, and nothing that was named before. Called when removing files was not
  /// enough.
  func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate]

  /// Whether a delivery is in flight whose end may let something be removed: then a writer is given a moment before it is
  /// told that no space is left.
  var mayFreeSpace: Bool { get }

  /// How large a file may become to be delivered. Takes no time.
  func sizeLimit(of id: FileID) -> SizeLimit

  /// Calls `whenKnown` once the content of this epoch or a later one has been delivered, or will not be without a user's
  /// help. The call comes once, on any thread, and perhaps before this returns. Nothing is called after
  /// ``endWaiting(_:for:)``.
  func awaitDelivery(
    of id: FileID, epoch: UInt64, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait

  /// No call waits any more; the delivery goes on.
  func endWaiting(_ wait: DeliveryWait, for id: FileID)
}

extension FileEventSink {
  /// Nothing is forgotten.
  public func isUnloaded(_ id: FileID) -> Bool { false }

  /// Nothing is forgotten.
  public func keep(_ id: FileID) {}

  /// Nothing is forgotten.
  public func endKeeping(_ id: FileID) {}

  /// No file is forgotten.
  public func folderMoved(to path: RelativePath) {}

  /// There is always room.
  public func waitForRoom() {}

  /// There is none.
  public func loadCandidates() -> Bool { false }

  /// There is none.
  public var unloadedBytes: UInt64 { 0 }

  /// Every byte stays.
  public func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate] { [] }

  /// Nothing becomes free by itself.
  public var mayFreeSpace: Bool { false }

  /// Any size will do.
  public func sizeLimit(of id: FileID) -> SizeLimit { .none }

  /// A sink that delivers nothing keeps no call waiting.
  public func awaitDelivery(
    of id: FileID, epoch: UInt64, whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void
  ) -> DeliveryWait {
    whenKnown(.notToBeDelivered)
    return DeliveryWait(number: 0)
  }

  /// No call waits.
  public func endWaiting(_ wait: DeliveryWait, for id: FileID) {}
}

/// How large a file may become to be delivered.
public enum SizeLimit: Hashable, Sendable {
  case notDelivered
  /// There is no limit, or none is known.
  case none
  /// A larger one is refused by the destination.
  case bytes(UInt64)

  /// That of two places: what one of them takes is not refused.
  public func merged(with other: SizeLimit) -> SizeLimit {
    switch (self, other) {
    case (.notDelivered, let limit), (let limit, .notDelivered): limit
    case (.none, _), (_, .none): .none
    case (.bytes(let one), .bytes(let two)): .bytes(max(one, two))
    }
  }
}

/// What a call that waits for a delivery is told.
public enum DeliveryOutcome: Hashable, Sendable {
  /// There is a durable receipt.
  case delivered
  /// Nothing has failed, and there is nothing to wait for: a temporary name, or an ignored file.
  case notToBeDelivered
  /// It has failed for good, or the engine ends; the status says why.
  case failed
}

/// A call that waits for a delivery.
public struct DeliveryWait: Hashable, Sendable {
  /// Differs from that of every other waiting call.
  public var number: UInt64

  /// One that waits.
  public init(number: UInt64) {
    self.number = number
  }
}

/// A delivered file whose local copy may go.
public struct EvictionCandidate: Hashable, Sendable {
  /// The file.
  public var id: FileID
  /// The epoch that was delivered. A file that has changed since, or is open for writing, must stay.
  public var epoch: UInt64
  /// The names that the file had then. Under another one it is still to be delivered.
  public var names: [RelativePath]

  /// A file as it was when it was chosen.
  public init(_ snapshot: FileSnapshot) {
    id = snapshot.id
    epoch = snapshot.epoch
    names = snapshot.names
  }
}
