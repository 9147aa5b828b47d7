import ChunkProtocol

/// Asks for one key after another until one is free: the one of the last publication, the file's own, and then that with numbers.
///
/// The first numbers are asked for in a row; then the steps double, and the last of them is halved until the first free number
/// behind a taken one is found. A thousand captures of one name so cost twenty questions, once.
struct S3NameSearch {
  private enum Phase {
    case last
    case own
    case counting
    /// This number is taken, and a later one is asked for.
    case leaping(taken: Int)
    /// The first is taken, the second is free; what is asked for lies between.
    case halving(taken: Int, free: Int)
  }

  /// Numbers that are asked for in a row.
  private static let countedMax = 16
  private static let numberMax = 1 << 30

  /// In front of every name.
  let prefix: String
  /// The name that was asked for, without the prefix.
  let name: String
  /// The number to begin with.
  let first: Int
  /// What is to be asked for, or used.
  private(set) var key: String
  private(set) var number: Int?
  private var phase: Phase

  init(prefix: String, name: String, publishedAs: String?, first: Int) {
    (self.prefix, self.name, self.first) = (prefix, name, max(2, first))
    key = publishedAs ?? prefix + name
    phase = publishedAs == nil ? .own : .last
  }

  /// The key is another capture's; false where there is no further one.
  mutating func foundTaken() -> Bool {
    guard let number else {
      if case .last = phase, !key.utf8.elementsEqual((prefix + name).utf8) {
        (phase, key) = (.own, prefix + name)
        return true
      }
      phase = .counting
      return ask(first)
    }
    switch phase {
    case .last, .own,
      .counting where number - first < Self.countedMax:
      return ask(number + 1)
    case .counting:
      phase = .leaping(taken: number)
      return ask(number + 2)
    case .leaping(let taken):
      phase = .leaping(taken: number)
      return ask(number + 2 * (number - taken))
    case .halving(_, let free):
      phase = .halving(taken: number, free: free)
      return ask(number + max(1, (free - number) / 2))
    }
  }

  /// The key is free. True where it is the one to use, false where a lower number is to be asked for before.
  mutating func foundFree() -> Bool {
    guard let number else { return true }
    let taken: Int
    switch phase {
    case .last, .own, .counting: return true
    case .leaping(let last): taken = last
    case .halving(let last, _): taken = last
    }
    guard number - taken > 1 else { return true }
    phase = .halving(taken: taken, free: number)
    return !ask(taken + (number - taken) / 2)
  }

  private mutating func ask(_ next: Int) -> Bool {
    guard next <= Self.numberMax, let numbered = PublishedName.numbered(name, by: next) else { return false }
    (number, key) = (next, prefix + numbered)
    return true
  }
}
