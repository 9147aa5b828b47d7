import CLinux
import FileModel
import Glibc
import Synchronization

/// One regular file of the spool, whatever its names are: its identity, its writers, and the order of its events.
///
/// Locks, in the order in which they may be taken: ``order``, the namespace lock, ``state``, the node table. The sink is
/// called under ``order`` only, so that the events of one file cannot overtake each other and the sink can still ask
/// for snapshots.
final class CapturedFile: Sendable {
  let id: FileID
  let node: NodeID
  let key: SpoolKey
  /// See ``FileSnapshot/isPutInPlace``.
  let isPutInPlace: Bool

  /// Held while an event is decided and delivered. The outermost lock.
  let order = Mutex<Void>(())
  /// Taken below the namespace lock, and held for the local disk at most.
  let state: Mutex<State>
  /// ``KnownLabel/released`` of the state is not nil: stored under the lock of ``state``, and asked by each read without it.
  let isPartlyReleased = Atomic<Bool>(false)
  /// How often the daemon has it open for itself. The handles of others are counted in the state's ``SharedHandles``.
  let openings = Atomic<Int>(0)
  /// What was read from the disk since the kernel was last asked. Its lock is the innermost one; a thread that hashes takes no other.
  let diskReads = Mutex(DiskReads())

  /// Everything here is touched under the lock of ``state`` alone. Each value has rules of its own, and is pure unless it keeps something
  /// open; the operations that are named tell it what happens.
  struct State {
    /// Who writes the file, and what the sink was told of it: `Filesystem+Events` and `Filesystem+Writers`.
    var activity: WriterActivity
    /// Which way the bytes of the handles go: opens and releases.
    var caching = CachingPolicy()
    /// What became of the content: its writers, and who finds out that the disk has lost some.
    var integrity = RevisionIntegrity()
    /// What the disk has of the file, and its mark: `Filesystem+Marks`, and the flusher.
    var disk: DiskStanding
    /// When the file was changed, as programs see it: who puts a label, and who changes the file.
    var changeTime = ChangeTime()
    /// What the label says beside the mark: who meets the file, and `Filesystem+Release`.
    var label: KnownLabel
    /// What the spool said instead of the file's size or mark when the sink was last told of it: snapshots and announcements.
    var doubt: SystemError?
    /// What the disk refuses of the file, and how that is asked: `Filesystem+WriteBack`.
    var writeBack = WriteBackStanding()
    /// What the disk lacks of the file while a writer has it open: `Filesystem+Growing`.
    var growth = UnflushedGrowth()
    /// How often the disk is asked while a writer has the file open: changes, and the flusher.
    var idle = IdleWatch()
    /// What is missing of the content that was settled, once the daemon has looked: `Filesystem+Lack`.
    var lack: KnownLack?
    /// Where the chunks stand, for their subscribers, until the file is settled: changes, and who asks for growth.
    var chunks = ChunkChangeTracker()
    /// What programs have open: opens, releases, and `Filesystem+Passthrough`.
    var handles = SharedHandles()
    /// What the sink knows of the file's existence: creation, the scan, and announcements.
    var announcement: FileAnnouncement
    /// What other programs did to the file: `Filesystem+ByHand`.
    var byHand = ChangesByHand()
    /// The facts of the last time that the spool could be asked: snapshots, and the flusher.
    var lastKnown = KnownAttributes()
  }

  struct KnownAttributes {
    /// The spool has said so: until then nothing stands in for what it does not say, least of all that the file is empty.
    var areKnown = false
    var sizeBytes: UInt64 = 0
    var modifiedNanoseconds: Int64 = 0
    var mode: UInt32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0
  }

  /// What a content lacks. A class, because few files have one.
  final class KnownLack: Sendable {
    let epoch: UInt64
    let cause: Interruption
    let missing: MissingBytes?

    init(epoch: UInt64, cause: Interruption, missing: MissingBytes?) {
      self.epoch = epoch
      self.cause = cause
      self.missing = missing
    }
  }

  init(
    id: FileID, node: NodeID, key: SpoolKey, isNew: Bool, found: SpoolLabel.Found? = nil, isPutInPlace: Bool = false
  ) {
    self.isPutInPlace = isPutInPlace
    self.id = id
    self.node = node
    self.key = key
    state = Mutex(
      State(
        activity: isNew ? .created : .found, disk: DiskStanding(mark: isNew ? WriterStateXattr.none : nil),
        label: KnownLabel(found: found), announcement: FileAnnouncement(wasCreatedHere: isNew)))
  }
}

extension CapturedFile {
  /// Whether what the spool says is of this file. Its inode number may be given to something else, which is no file, by now.
  func matches(_ status: stat) -> Bool { status.key == key && status.kind == .regular }
}

extension CapturedFile.State {
  /// No writer writes, and every one has closed a descriptor since it last did.
  var areWritersResting: Bool { handles.areWritersResting(in: activity) }

  /// What has no name any more is not kept.
  mutating func lostLastName() {
    activity.lostLastName()
    writeBack.endAsking()
    leaveToItsWriters()
  }

  /// What the disk has refused is not given to it again. A program that has the file open still learns of it at each fsync.
  mutating func leaveToItsWriters() {
    guard let refusal = writeBack.takeRefusal() else { return }
    integrity.present.lostContent(.writeFailed(errno: refusal.error.code))
  }

  /// What became of the content that there is.
  var contentIntegrity: ContentIntegrity { integrity.content(hasOpenRevision: activity.hasOpenRevision) }

  /// The disk has lost some of the content.
  mutating func lostContent(_ cause: Interruption) {
    integrity.lostContent(cause, hasOpenRevision: activity.hasOpenRevision)
  }

  /// The epoch of a content that its writers have closed; nil where a writer may be changing it.
  var wholeEpoch: UInt64? { areWritersResting && !handles.hasPassthroughWriter ? activity.epoch : nil }
}

extension CapturedFile.KnownAttributes {
  init(_ status: stat) {
    areKnown = true
    sizeBytes = UInt64(clamping: status.st_size)
    let seconds = Int64(status.st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    modifiedNanoseconds =
      seconds.overflow
      ? (status.st_mtim.tv_sec < 0 ? .min : .max) : seconds.partialValue &+ Int64(status.st_mtim.tv_nsec)
    mode = status.st_mode & 0o7777
    user = status.st_uid
    group = status.st_gid
  }
}
