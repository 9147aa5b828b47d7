public import Integrity

/// How a chunk's body is coded. Digests, MAC and size are those of the plain bytes.
public enum ChunkEncoding: Hashable, Sendable {
  /// The plain bytes.
  case identity
  /// One LZ4 block, without a frame.
  case lz4
  /// One Zstandard frame of the filtered bytes.
  case zstd(RecordFilter)

  /// What a receiver lists where it understands it; a value of ``HeaderName/chunkEncoding`` begins with it.
  public enum Word: String, Hashable, Sendable, CaseIterable {
    /// ``ChunkEncoding/identity``
    case identity
    /// ``ChunkEncoding/lz4``
    case lz4
    /// ``ChunkEncoding/zstd(_:)`` with any filter.
    case zstd
  }

  private static let strideParameter = ";stride="
  private static let differenceParameter = ";difference="

  /// Its word.
  public var word: Word {
    switch self {
    case .identity: .identity
    case .lz4: .lz4
    case .zstd: .zstd
    }
  }

  /// As it stands in the header: a parameter that changes nothing is left out.
  public var headerValue: String {
    guard case .zstd(let filter) = self, filter != .none else { return word.rawValue }
    let difference = filter.difference == 0 ? "" : "\(Self.differenceParameter)\(filter.difference)"
    return "\(word.rawValue)\(Self.strideParameter)\(filter.stride)\(difference)"
  }

  /// Reads the header's value, strictly; nil where it is none.
  public init?(headerValue text: String) {
    if let word = Word(rawValue: text) {
      switch word {
      case .identity: self = .identity
      case .lz4: self = .lz4
      case .zstd: self = .zstd(.none)
      }
      return
    }
    let parts = text.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map(Substring.init)
    guard (2...3).contains(parts.count), parts[0] == Word.zstd.rawValue,
      let stride = Self.parameter(parts[1], Self.strideParameter),
      let difference = parts.count == 3 ? Self.parameter(parts[2], Self.differenceParameter) : 0,
      parts.count == 2 || difference > 0, let filter = RecordFilter(stride: stride, difference: difference)
    else { return nil }
    self = .zstd(filter)
  }

  private static func parameter(_ text: Substring, _ name: String) -> Int? {
    guard text.hasPrefix(name.dropFirst()) else { return nil }
    return DecimalText.unsigned(text.dropFirst(name.count - 1), as: UInt8.self).map { Int($0) }
  }
}
