/// For whom a thread works, which says how the system favours it (docs/design/threads.md#the-writer-comes-first).
public enum ThreadRole: Hashable, Sendable {
  /// It answers the kernel, decides, or does what such a thread may wait for. It is favoured as the other programs of the machine
  /// are.
  case answering
  /// It reads, hashes, compresses or sends, and is lowered. While the processors are busy it may stand still for a fifth of a
  /// second wherever it is. So it takes no lock of the threads that answer the kernel. (Those of the transport and of buffers it
  /// shares with the engine's thread.)
  case behind(UploadPriority)

  /// How much nicer such a thread is than the process (sched(7)); nil where it stays as it is.
  var steps: Int32? {
    switch self {
    case .answering: nil
    case .behind(let priority): priority.steps
    }
  }
}

/// How far behind the writer and the other programs of the machine an upload comes. Whatever is chosen, an upload is as fast as
/// the machine allows when no other program wants its processors.
public enum UploadPriority: String, CaseIterable, Hashable, Sendable {
  /// Not at all.
  case normal
  /// A thread gets an eighteenth of what a thread of another program gets beside it.
  case low
  /// A seventieth: where the machine is busy for hours, so is the upload.
  case lowest

  /// Nil where threads stay as the process is.
  var steps: Int32? {
    switch self {
    case .normal: nil
    case .low: 13
    case .lowest: 19
    }
  }
}
