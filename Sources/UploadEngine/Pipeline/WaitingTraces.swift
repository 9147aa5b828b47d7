/// Acknowledged bytes whose pages are to be dropped once a worker has time, joined where they touch.
///
/// Chunks are acknowledged nearly in order, so that a file has few ranges. Bytes and not ranges say when dropping comes
/// before reading: workers that never come to an end of what is to be read would leave a whole recording in the cache.
struct WaitingTraces: Sendable {
  /// From here on they come before the next chunk.
  static let dueBytes: UInt64 = 64 << 20
  /// Ranges that touch no other; beyond it the latest of the same file grows over what lies between, and those bytes are
  /// read from the disk if they are wanted again.
  static let tracesMax = 256

  private var traces: [CacheTrace] = []
  private var bytes: UInt64 = 0

  var isEmpty: Bool { traces.isEmpty }
  var isDue: Bool { bytes >= Self.dueBytes || traces.count >= Self.tracesMax }

  /// A trace of yet another file is forgotten where there is no place; the kernel drops its pages when it likes.
  mutating func insert(_ trace: CacheTrace) {
    let isFull = traces.count >= Self.tracesMax
    guard let index = traces.lastIndex(where: { Self.isSameKind($0, trace) && (isFull || Self.touch($0, trace)) })
    else {
      guard !isFull else { return }
      traces.append(trace)
      bytes += Self.length(of: trace)
      return
    }
    bytes -= Self.length(of: traces[index])
    let known = traces[index].range
    traces[index].range =
      min(known.lowerBound, trace.range.lowerBound)..<max(known.upperBound, trace.range.upperBound)
    bytes += Self.length(of: traces[index])
  }

  mutating func takeAll() -> [CacheTrace] {
    defer { self = WaitingTraces() }
    return traces
  }

  private static func isSameKind(_ one: CacheTrace, _ other: CacheTrace) -> Bool {
    one.file == other.file && one.isOfLargeFile == other.isOfLargeFile
  }

  private static func touch(_ one: CacheTrace, _ other: CacheTrace) -> Bool {
    one.range.lowerBound <= other.range.upperBound && other.range.lowerBound <= one.range.upperBound
  }

  private static func length(of trace: CacheTrace) -> UInt64 { trace.range.upperBound - trace.range.lowerBound }
}
