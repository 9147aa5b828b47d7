import FileModel

/// One line about an event.
///
/// A line takes texts, numbers and words, and nothing else: Swift's text of a value's type or case (`"\(value)"`) would
/// change when these are renamed. Bytes and no `String`, because every line of every run is built for the fingerprint.
struct TraceLine: ExpressibleByStringInterpolation {
  private(set) var bytes: [UInt8]

  init(stringLiteral value: String) { bytes = Array(value.utf8) }
  init(stringInterpolation pieces: Pieces) { bytes = pieces.bytes }

  var text: String { String(decoding: bytes, as: UTF8.self) }

  struct Pieces: StringInterpolationProtocol {
    fileprivate var bytes: [UInt8] = []

    init(literalCapacity: Int, interpolationCount: Int) {
      bytes.reserveCapacity(literalCapacity + 24 * interpolationCount)
    }

    mutating func appendLiteral(_ literal: String) { bytes.append(contentsOf: literal.utf8) }
    mutating func appendInterpolation(_ text: String) { bytes.append(contentsOf: text.utf8) }
    mutating func appendInterpolation(_ text: Substring) { bytes.append(contentsOf: text.utf8) }
    mutating func appendInterpolation(_ line: TraceLine) { bytes.append(contentsOf: line.bytes) }
    mutating func appendInterpolation(_ word: some TraceWord) { bytes.append(contentsOf: word.word.utf8) }

    mutating func appendInterpolation(_ number: some FixedWidthInteger) {
      if number < 0 { bytes.append(UInt8(ascii: "-")) }
      let start = bytes.count
      var rest = UInt64(number.magnitude)
      repeat {
        bytes.append(UInt8(ascii: "0") + UInt8(rest % 10))
        rest /= 10
      } while rest > 0
      bytes[start...].reverse()
    }

    /// The first digits of the identity; a run has few files.
    mutating func appendInterpolation(_ id: FileID) {
      for place in 0..<6 {
        let digit = UInt8(truncatingIfNeeded: id.high >> UInt64(60 - 4 * place)) & 0xf
        bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") - 10 + digit)
      }
    }

    mutating func appendInterpolation(list lines: some Sequence<TraceLine>, separator: String = ", ") {
      for (position, line) in lines.enumerated() {
        if position > 0 { appendLiteral(separator) }
        appendInterpolation(line)
      }
    }

    mutating func appendInterpolation(list numbers: some Sequence<Int>) {
      appendInterpolation(list: numbers.lazy.map { "\($0)" })
    }
  }
}

/// A value that has a word of its own in traces, independent of its name in the code.
protocol TraceWord {
  var word: String { get }
}

/// The events of a run: a digest over all of them, and the lines where they are wanted.
struct Trace {
  private(set) var lines: [String] = []
  /// Differs between two runs whose traces do (FNV-1a).
  private(set) var fingerprint: UInt64 = 0xcbf2_9ce4_8422_2325
  private let keepsLines: Bool

  init(keepsLines: Bool) { self.keepsLines = keepsLines }

  mutating func note(_ line: TraceLine, at nanoseconds: Int64) {
    mix(UInt64(bitPattern: nanoseconds))
    line.bytes.withUnsafeBufferPointer { for byte in $0 { mix(byte: byte) } }
    // The end of a line, so that no two traces consist of the same bytes.
    mix(byte: 0xff)
    guard keepsLines else { return }
    let microseconds = nanoseconds / 1000
    let fraction = String(microseconds % 1_000_000 + 1_000_000).dropFirst()
    lines.append("\(microseconds / 1_000_000).\(fraction) \(line.text)")
  }

  /// Mixes in a number that has no line and must be the same, too.
  mutating func mix(_ number: UInt64) {
    for shift in stride(from: UInt64(0), to: 64, by: 8) { mix(byte: UInt8(truncatingIfNeeded: number >> shift)) }
  }

  private mutating func mix(byte: UInt8) { fingerprint = (fingerprint ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
}
