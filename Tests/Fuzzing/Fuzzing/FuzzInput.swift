/// The bytes of one run. What is taken from the end decides how a parser is called (where to cut the input, which step is
/// answered), so that the front stays what the format says.
public struct FuzzInput: Sendable {
  /// What is to be parsed.
  public private(set) var bytes: [UInt8]

  init(_ buffer: UnsafeBufferPointer<UInt8>) {
    // A copy of exactly this length: the address sanitizer sees a read beyond it.
    bytes = Array(buffer)
  }

  /// The bytes as text; what is no UTF-8 is repaired, as the product does with what the network says.
  public var text: String { String(decoding: bytes, as: UTF8.self) }

  /// Takes the last byte; 0 when there is none.
  public mutating func choose() -> Int { Int(bytes.popLast() ?? 0) }

  /// Takes the last byte for one of several possibilities.
  public mutating func choose<Choice>(_ choices: [Choice]) -> Choice { choices[choose() % choices.count] }

  /// Takes two bytes for each place within what is left, both ends included; in their order.
  public mutating func choosePlaces(_ count: Int) -> [Int] {
    let numbers = (0..<count).map { _ in choose() << 8 | choose() }
    return numbers.map { $0 % (bytes.count + 1) }.sorted()
  }
}
