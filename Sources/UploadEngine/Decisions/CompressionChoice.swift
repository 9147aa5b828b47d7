import TransferModel

/// A method of compressing a chunk, from the cheapest to the dearest.
enum CompressionMethod: Int, Hashable, Sendable, CaseIterable {
  case identity
  case lz4
  case zstdQuick
  case zstdThorough

  /// The methods that take time.
  static let costly: [CompressionMethod] = [.lz4, .zstdQuick, .zstdThorough]

  /// Zstandard's level. Stronger ones make filtered samples shorter by hardly a fiftieth, for five times the time.
  var level: Int? {
    switch self {
    case .identity, .lz4: nil
    case .zstdQuick: 1
    case .zstdThorough: 3
    }
  }
}

extension CompressionMethod {
  /// What is assumed until something was measured; most machines are faster.
  fileprivate var secondsPerByteAssumed: Double {
    switch self {
    case .identity: 0
    case .lz4: 1 / 200e6
    case .zstdQuick: 1 / 100e6
    case .zstdThorough: 1 / 50e6
    }
  }
}

/// The part of some bytes that each method leaves of them.
struct CompressionShares: Hashable, Sendable {
  private var shares = [Double](repeating: 1, count: CompressionMethod.allCases.count)

  /// No method gains anything.
  static let nothing = CompressionShares()

  subscript(method: CompressionMethod) -> Double {
    get { shares[method.rawValue] }
    set { shares[method.rawValue] = method == .identity ? 1 : newValue }
  }

  /// The method leaves so little that it is worth using.
  func isWorthwhile(_ method: CompressionMethod) -> Bool {
    method == .identity || self[method] < 1 - UploadConstants.compressionBenefitThreshold
  }
}

/// The seconds of a core that each method takes for a plain byte, and that a probe of samples takes. Measured here and
/// now: a busy machine takes longer.
struct CompressionCosts: Hashable, Sendable {
  private static let probeAssumed = 0.002
  /// A single measurement counts for this part.
  private static let weight = 0.25
  /// A skipped probe moves its expected time towards the assumed one by this part.
  private static let forgetting = 1.0 / 32

  private var secondsPerByte = CompressionMethod.allCases.map(\.secondsPerByteAssumed)
  /// The seconds of a probe.
  private(set) var probe = Self.probeAssumed

  subscript(method: CompressionMethod) -> Double { secondsPerByte[method.rawValue] }

  mutating func measured(_ method: CompressionMethod, bytes: Int, seconds: Double) {
    guard method != .identity, bytes > 0, seconds > 0 else { return }
    let known = secondsPerByte[method.rawValue]
    secondsPerByte[method.rawValue] = known + Self.weight * (seconds / Double(bytes) - known)
  }

  mutating func measuredProbe(seconds: Double) {
    guard seconds > 0 else { return }
    probe += Self.weight * (seconds - probe)
  }

  /// A probe would have taken too long. After some skipped ones a probe is taken all the same: the machine may have
  /// been busy when it was measured.
  mutating func skippedProbe() { probe += Self.forgetting * (Self.probeAssumed - probe) }
}

extension ChunkCompression {
  /// What delivers the bytes first. A chunk takes the line's time for what is left of it, or the processor's, whichever
  /// is longer. Of equally fast methods the cheapest wins. While a file is written there is time for what leaves least,
  /// where that comes no later than plain bytes.
  func method(leaving shares: CompressionShares, at costs: CompressionCosts) -> CompressionMethod {
    let possible = CompressionMethod.allCases.filter { allows($0) && shares.isWorthwhile($0) }
    guard let lineBytesPerSecond, lineBytesPerSecond > 0 else { return possible.last ?? .identity }
    func seconds(_ method: CompressionMethod) -> Double {
      max(shares[method] / lineBytesPerSecond, costs[method] * UploadConstants.compressionCoreShare)
    }
    if isEarly {
      let plain = seconds(.identity)
      return possible.filter { seconds($0) <= plain }.min { shares[$0] < shares[$1] } ?? .identity
    }
    let least = possible.map(seconds).min() ?? 0
    return possible.first { seconds($0) <= least * (1 + UploadConstants.compressionTimeTolerance) } ?? .identity
  }

  /// The same where samples were probed for LZ4 alone, and this part is left of them.
  func usesLZ4(leaving share: Double, at costs: CompressionCosts) -> Bool {
    var shares = CompressionShares.nothing
    shares[.lz4] = share
    return method(leaving: shares, at: costs) == .lz4
  }

  /// A probe of samples costs next to nothing against the time that the line takes for the bytes that it decides on.
  func isWorthAProbe(at bytes: UInt64, costs: CompressionCosts) -> Bool {
    guard zstd else { return false }
    guard let lineBytesPerSecond, lineBytesPerSecond > 0 else { return true }
    let decided = Double(min(bytes, UInt64(UploadConstants.compressionSampleStride)))
    return costs.probe <= UploadConstants.compressionProbeShare * decided / lineBytesPerSecond
  }

  private func allows(_ method: CompressionMethod) -> Bool {
    switch method {
    case .identity: true
    case .lz4: lz4
    case .zstdQuick, .zstdThorough: zstd
    }
  }
}
