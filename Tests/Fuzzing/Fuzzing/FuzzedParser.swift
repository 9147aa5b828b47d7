/// One parser with the properties that hold for every input.
public struct FuzzedParser: Sendable {
  /// Names the parser on the command line, and its corpus.
  public let name: String
  /// The longest input that libFuzzer makes.
  public let bytesMax: Int
  /// Words of the format, for libFuzzer's dictionary.
  public let words: [String]
  /// Inputs to begin with: the vectors of the unit tests.
  public let seeds: @Sendable () throws -> [[UInt8]]
  /// Parses one input; traps where a property does not hold.
  public let test: @Sendable (FuzzInput) throws -> Void

  /// A parser of bytes.
  public init(
    _ name: String, bytesMax: Int = 2048, words: [String] = [], seeds: @escaping @Sendable () throws -> [[UInt8]],
    test: @escaping @Sendable (FuzzInput) throws -> Void
  ) {
    self.name = name
    self.bytesMax = bytesMax
    self.words = words
    self.seeds = seeds
    self.test = test
  }

  /// A parser whose seeds are texts.
  public init(
    _ name: String, bytesMax: Int = 2048, words: [String] = [], texts: [String],
    test: @escaping @Sendable (FuzzInput) throws -> Void
  ) {
    self.init(name, bytesMax: bytesMax, words: words, seeds: { texts.map { Array($0.utf8) } }, test: test)
  }
}

/// Ends the run with a report when a property does not hold.
public func require(
  _ condition: @autoclosure () throws -> Bool, _ property: @autoclosure () -> String, file: StaticString = #file,
  line: UInt = #line
) rethrows {
  guard try condition() else { fatalError("property does not hold: \(property())", file: file, line: line) }
}
