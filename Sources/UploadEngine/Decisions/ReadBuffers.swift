import FileModel
import Lookup

/// The requested reads, and the buffers that keep their bytes until they are sent or no longer wanted
/// (docs/design/reading.md#memory).
struct ReadBuffers: Sendable {
  /// The chunk that is read, and its file.
  struct Reading: Hashable, Sendable {
    var file: FileID
    var index: Int
    var isOfGrowingFile: Bool
  }

  /// The buffer that a read takes.
  enum Buffer: Hashable, Sendable {
    /// A buffer for a small file; `isForFrame` where it is read uncompressed because it will be compressed with others.
    case small(isForFrame: Bool)
    case chunk(byteCount: Int)
  }

  private struct Held: Sendable {
    /// Nil once the end of the read was reported.
    var reading: Reading?
    var buffer: Buffer
    var saving = CompressionSaving.nothing
  }

  private var held: LookupTable<ReadID, Held> = [:]
  private var next: UInt64 = 1
  /// Bytes of buffers for chunks.
  private(set) var chunkBytesInUse = 0
  /// Buffers for small files.
  private(set) var smallInUse = 0

  /// No read has a buffer.
  var isEmpty: Bool { held.isEmpty }

  func holds(_ read: ReadID) -> Bool { held[read] != nil }

  /// Reads whose end was reported and whose bytes are kept.
  var ended: LookupSet<ReadID> { held.filter { $1.reading == nil }.keys }

  /// Takes a buffer for a read, until ``release(_:)``.
  mutating func begin(_ reading: Reading, in buffer: Buffer) -> ReadID {
    let read = ReadID(next)
    next += 1
    held[read] = Held(reading: reading, buffer: buffer)
    switch buffer {
    case .small: smallInUse += 1
    case .chunk(let byteCount): chunkBytesInUse += byteCount
    }
    return read
  }

  /// A read has ended, and so much was saved of its bytes. Returns what was read; nil where that was reported before.
  mutating func ended(_ read: ReadID, saving: CompressionSaving) -> Reading? {
    guard var one = held[read], let reading = one.reading.take() else { return nil }
    one.saving = saving
    held[read] = one
    return reading
  }

  /// What compression has saved of the read's bytes.
  func saving(of read: ReadID) -> CompressionSaving { held[read]?.saving ?? .nothing }

  /// The read is uncompressed, for a frame with others.
  func isForFrame(_ read: ReadID) -> Bool { held[read]?.buffer == .small(isForFrame: true) }

  /// The read's buffer is free again. Without effect the second time.
  mutating func release(_ read: ReadID) {
    switch held.removeValue(forKey: read)?.buffer {
    case .small: smallInUse -= 1
    case .chunk(let byteCount): chunkBytesInUse -= byteCount
    case nil: break
    }
  }
}
