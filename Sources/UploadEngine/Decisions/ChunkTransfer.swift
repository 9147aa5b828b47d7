/// Names one read of a chunk into a buffer; the driver keeps the buffer under this number until it is told to release it.
public struct ReadID: Hashable, Sendable {
  /// The number, never reused within a process.
  public let value: UInt64

  /// Names the read with this number.
  public init(_ value: UInt64) { self.value = value }
}

/// Where each chunk of one content of one file stands. Pure bookkeeping: it decides nothing.
///
/// A class, because a file of 100 GB has 25,000 chunks and a value would be copied at each event. `@unchecked Sendable`
/// is sound because it is only reachable through the one ``FileUpload`` that made it, inside the one ``UploadSchedule``,
/// which its driver keeps under one lock.
final class ChunkTransfer: @unchecked Sendable {
  /// A chunk goes from `pending` to `done`; every failure and every change of the file takes it back to `pending`.
  enum State: Hashable, Sendable {
    /// To be read. Becomes `reading` when a buffer is free.
    case pending
    /// A worker reads and hashes it. Becomes `read`, or `done` when the server already holds the same bytes, or
    /// `pending` when the file changed meanwhile.
    case reading(ReadID)
    /// Its bytes wait in a buffer for a free request.
    case read(ReadID, ChunkDigest)
    /// On its way. Becomes `done` at the acknowledgement, `pending` at a failure.
    case sending(HTTPRequestID, ReadID, ChunkDigest)
    /// The server holds exactly these bytes.
    case done(ChunkDigest)
  }

  let plan: ChunkPlan
  private(set) var states: [State]
  private(set) var doneCount = 0
  private(set) var doneBytes: UInt64 = 0
  private(set) var sendingCount = 0
  private(set) var readingCount = 0
  /// Chunks in state `read`, in the order in which their bytes arrived.
  private(set) var readIndices: [Int] = []
  /// No chunk below this is pending.
  private var cursor = 0

  init(plan: ChunkPlan) {
    self.plan = plan
    states = Array(repeating: .pending, count: plan.count)
  }

  var isDone: Bool { doneCount == states.count }

  /// The next chunk to read; lowest index first.
  func nextPending() -> Int? {
    while cursor < states.count {
      if case .pending = states[cursor] { return cursor }
      cursor += 1
    }
    return nil
  }

  func set(_ state: State, at index: Int) {
    guard states.indices.contains(index) else { return }
    count(states[index], at: index, by: -1)
    states[index] = state
    count(state, at: index, by: 1)
    if case .pending = state { cursor = min(cursor, index) }
  }

  /// The digests in index order; nil unless every chunk is done.
  var digests: [ChunkDigest]? {
    guard isDone else { return nil }
    return states.compactMap { state in
      guard case .done(let digest) = state else { return nil }
      return digest
    }
  }

  private func count(_ state: State, at index: Int, by step: Int) {
    switch state {
    case .pending: break
    case .reading: readingCount += step
    case .read:
      if step > 0 { readIndices.append(index) } else { readIndices.removeAll { $0 == index } }
    case .sending: sendingCount += step
    case .done:
      doneCount += step
      let bytes = UInt64(plan.byteCount(of: index))
      doneBytes = step > 0 ? doneBytes + bytes : doneBytes - bytes
    }
  }
}
