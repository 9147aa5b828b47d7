/// Bytes of a name, of a link's target or of a file's beginning. Most are text, and written and shown as such.
package struct Bytes: Hashable, Sendable, Codable, ExpressibleByStringLiteral, CustomStringConvertible {
  package var bytes: [UInt8]

  package init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

  package init(_ text: String) { bytes = Array(text.utf8) }

  package init(stringLiteral text: String) { self.init(text) }

  // One character for each byte: JSON carries text only.
  package init(from decoder: any Decoder) throws {
    let text = try decoder.singleValueContainer().decode(String.self)
    bytes = text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
  }

  package func encode(to encoder: any Encoder) throws {
    var text = String.UnicodeScalarView()
    text.append(contentsOf: bytes.lazy.map { Unicode.Scalar($0) })
    var container = encoder.singleValueContainer()
    try container.encode(String(text))
  }

  package var description: String {
    let shown = bytes.prefix(80).map { byte in
      (0x20..<0x7F).contains(byte) ? String(Unicode.Scalar(byte)) : "\\x" + String(byte, radix: 16)
    }
    return "“" + shown.joined() + (bytes.count > 80 ? "…” (\(bytes.count) bytes)" : "”")
  }
}

/// What a test writes: said briefly, made where it is written.
package enum Payload: Hashable, Sendable, Codable, ExpressibleByStringLiteral {
  case bytes(Bytes)
  case repeated(UInt8, count: Int)
  /// Bytes drawn from a seed.
  case random(seed: UInt64, count: Int)

  package init(stringLiteral text: String) { self = .bytes(Bytes(text)) }

  package var bytes: [UInt8] {
    switch self {
    case .bytes(let literal): return literal.bytes
    case .repeated(let byte, let count): return Array(repeating: byte, count: count)
    case .random(let seed, let count):
      var generator = SeededGenerator(seed: seed)
      // Eight at a time: unoptimised builds write megabytes, too.
      var bytes = [UInt8](repeating: 0, count: (count + 7) & ~7)
      bytes.withUnsafeMutableBytes { buffer in
        var offset = 0
        while offset < buffer.count {
          buffer.storeBytes(of: generator.next(), toByteOffset: offset, as: UInt64.self)
          offset += 8
        }
      }
      bytes.removeLast(bytes.count - count)
      return bytes
    }
  }
}

/// What was read: whole where it is short, by length and digest where it is not.
package struct Content: Hashable, Sendable, Codable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let count: Int
  private let digest: UInt64
  /// The first bytes, 4096 at most.
  package private(set) var head: Bytes

  /// The same without the first bytes: enough to tell contents apart.
  package var summary: Content {
    var summary = self
    summary.head = ""
    return summary
  }

  package init(_ bytes: some Collection<UInt8>) {
    count = bytes.count
    digest = Self.digest(Array(bytes))
    head = Bytes(bytes.prefix(4096))
  }

  /// FNV-1a by words of 64 bits: it has to find differences, not attacks, and be quick in unoptimised builds.
  private static func digest(_ bytes: [UInt8]) -> UInt64 {
    bytes.withUnsafeBytes { buffer in
      var digest: UInt64 = 14_695_981_039_346_656_037
      var offset = 0
      while offset + 8 <= buffer.count {
        digest = (digest ^ buffer.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 1_099_511_628_211
        // A multiplication carries upwards only.
        digest ^= digest >> 32
        offset += 8
      }
      while offset < buffer.count {
        digest = (digest ^ UInt64(buffer[offset])) &* 1_099_511_628_211
        offset += 1
      }
      return digest
    }
  }

  package init(_ payload: Payload) { self.init(payload.bytes) }

  package init(stringLiteral text: String) { self.init(Array(text.utf8)) }

  package var description: String {
    count == head.bytes.count ? head.description : "\(count) bytes, digest \(String(digest, radix: 16)): \(head)"
  }
}

/// SplitMix64: the same numbers for the same seed, everywhere.
package struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
