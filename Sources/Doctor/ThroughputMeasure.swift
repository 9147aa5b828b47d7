import TransferModel
import UploadEngine

/// How fast an upload is, from samples. Pure.
struct ThroughputMeasure: Sendable {
  /// One sample.
  struct Sample: Hashable, Sendable {
    /// Since the first request.
    var time: Duration
    /// Of all requests that were answered.
    var acknowledgedBytes: UInt64
    /// Handed to the network, those of requests in flight included.
    var sentBytes: UInt64
  }

  private(set) var samples: [Sample] = []

  /// At most so long.
  static let timeMax: Duration = .seconds(8)
  /// At most so much.
  static let bytesMax: UInt64 = 64 << 20

  mutating func add(_ sample: Sample) { samples.append(sample) }

  /// What was sent and acknowledged.
  var acknowledgedBytes: UInt64 { samples.last?.acknowledgedBytes ?? 0 }

  /// Bytes a second; nil when there is too little to say.
  ///
  /// On a fast link it is what was acknowledged. On one where not even one chunk of each stream was, it is what went out in
  /// the second half: what the kernel takes in the beginning it only keeps.
  func bytesPerSecond(chunkBytes: Int, streams: Int) -> Double? {
    guard let last = samples.last, last.time > .zero else { return nil }
    if last.acknowledgedBytes >= UInt64(clamping: chunkBytes) &* UInt64(clamping: streams) {
      // Up to the sample that saw the last of them.
      let end = samples.first { $0.acknowledgedBytes == last.acknowledgedBytes }?.time ?? last.time
      return Double(last.acknowledgedBytes) / max(0.001, end / .seconds(1))
    }
    guard let middle = samples.last(where: { $0.time <= last.time / 2 }), last.sentBytes > middle.sentBytes else {
      return nil
    }
    return Double(last.sentBytes - middle.sentBytes) / ((last.time - middle.time) / .seconds(1))
  }
}

/// How an upload for a test is cut. Pure.
struct TrialPlan: Hashable, Sendable {
  /// All but the last are so long.
  var chunkBytes: Int
  var chunkCount: Int
  var streams: Int
  /// Of the file. A shorter one than a chunk has one, which is as short.
  var sizeBytes: UInt64
  /// A mount makes no shorter ones.
  private var chunkBytesLeast: Int

  /// What is sent at a time.
  var contentBytes: Int { min(chunkBytes, Int(clamping: sizeBytes)) }

  /// One chunk as a mount would send it (`chunkBytes`), or as many as may be sent in the time.
  init(
    _ abilities: DestinationAbilities, limits: DestinationLimits?, streams: Int,
    chunkBytes wantedBytes: Int = UploadConstants.chunkBytesDefault, measuring: Bool
  ) {
    self.streams = measuring ? max(1, min(streams, abilities.parallelChunks)) : 1
    let room = [abilities.fileBytesMax, limits?.fileBytesMax].compactMap { $0 }.min() ?? .max
    let wanted = min(room, measuring ? ThroughputMeasure.bytesMax : UInt64(clamping: wantedBytes))
    let least = max(abilities.chunkBytesLeast(forFileOf: wanted), limits?.chunkBytes?.lowerBound ?? 1)
    let most = max(least, limits?.chunkBytes?.upperBound ?? .max)
    chunkBytesLeast = max(least, min(UploadConstants.chunkBytesMin, most))
    chunkBytes = max(1, min(max(least, wantedBytes), most))
    chunkCount = max(1, Int(clamping: wanted / UInt64(chunkBytes)))
    sizeBytes = max(1, min(wanted, UInt64(chunkBytes) * UInt64(chunkCount)))
  }

  /// The same in chunks of half the length, as a mount goes on where longer ones are refused; nil where it would not.
  var shorter: TrialPlan? {
    let half = max(chunkBytesLeast, contentBytes / 2 / (64 << 10) * (64 << 10))
    guard half > 0, half < contentBytes else { return nil }
    var plan = self
    plan.chunkBytes = half
    plan.chunkCount = max(1, Int(clamping: sizeBytes / UInt64(half)))
    plan.sizeBytes = UInt64(half) * UInt64(plan.chunkCount)
    return plan
  }
}

extension Finding {
  /// Of an upload that was measured.
  static func throughput(_ measure: ThroughputMeasure, chunkBytes: Int, streams: Int) -> Finding {
    guard let rate = measure.bytesPerSecond(chunkBytes: chunkBytes, streams: streams) else {
      return Finding(
        .throughput, .warning, "too little was sent in \(ThroughputMeasure.timeMax.readable) to say how fast it is.",
        advice: "The link is very slow, or something holds large uploads up.")
    }
    let time = measure.samples.last?.time ?? .zero
    let gigabyte = rate > 0 ? ", a file of 1 GB takes \(Readable.seconds(1e9 / rate))" : ""
    return Finding(
      .throughput, .ok,
      "\(Readable.rate(rate)) over \(Readable.count(streams, "stream")), measured for \(time.readable)\(gigabyte).",
      facts: [
        Fact(key: "bytes_per_second", value: .number(Int64(rate))),
        Fact(key: "streams", value: .number(Int64(streams))),
        Fact(key: "acknowledged_bytes", value: .number(Int64(clamping: measure.acknowledgedBytes))),
      ])
  }
}
