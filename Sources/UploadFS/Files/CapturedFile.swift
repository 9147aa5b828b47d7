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

  /// Held while an event is decided and delivered.
  let order = Mutex<Void>(())
  let state: Mutex<State>
  /// ``KnownLabel/released`` of the state is not nil; asked by each read.
  let isPartlyReleased = Atomic<Bool>(false)
  /// How often the daemon has it open for itself. The handles of others are counted in the state's ``SharedHandles``.
  let openings = Atomic<Int>(0)
  /// Its lock is the innermost one.
  let diskReads = Mutex(DiskReads())

  struct State {
    var activity: WriterActivity
    var caching = CachingPolicy()
    var integrity = RevisionIntegrity()
    var disk: DiskStanding
    var changeTime = ChangeTime()
    var label: KnownLabel
    /// What the spool said instead of the file's size or mark when the sink was last told of it.
    var doubt: SystemError?
    var writeBack = WriteBackStanding()
    /// What the disk lacks of it while a writer has it open.
    var growth = UnflushedGrowth()
    /// How often its disk is asked while a writer has it open.
    var idle = IdleWatch()
    /// What is missing of the content that was settled, once the daemon has looked.
    var lack: KnownLack?
    /// Where its chunks stand, for their subscribers; until it is settled.
    var chunks = ChunkChangeTracker()
    var handles = SharedHandles()
    var announcement: FileAnnouncement
    var byHand = ChangesByHand()
    /// The facts of the last time that the spool could be asked.
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

  /// What the next run has to know as long as it is being written. What is missing, or in memory alone, its writer's death does not
  /// explain, and a later writer that goes on does not make it good.
  func markWhileWriting(in instance: SpoolInstance) -> WriterStateXattr {
    if let lack = integrity.present.lack { return .interrupted(lack) }
    return !writeBack.isRefused ? .writing(in: instance) : .interrupted(.notOnDisk)
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
