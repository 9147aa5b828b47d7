import ChunkProtocol

/// Asks for one key after another until one is free: the one of the last publication, the file's own, and then that with numbers, as
/// ``NumberSearch`` has them. A thousand captures of one name so cost twenty questions, once.
struct NameSearch {
  /// So many numbers are asked for in a row.
  private static let numbersCounted = 17

  /// In front of every name.
  let prefix: String
  /// The name that was asked for, without the prefix.
  let name: String
  /// The number to begin with.
  let first: Int
  /// What is to be asked for, or used.
  private(set) var key: String
  private(set) var number: Int?
  /// The key is that of the last publication.
  private var isLast: Bool
  private var numbers: NumberSearch

  init(prefix: String, name: String, publishedAs: String?, first: Int) {
    (self.prefix, self.name, self.first) = (prefix, name, max(2, first))
    key = publishedAs ?? prefix + name
    isLast = publishedAs != nil
    numbers = NumberSearch(from: self.first, counting: Self.numbersCounted)
  }

  /// The key is another capture's; false where there is no further one.
  mutating func foundTaken() -> Bool {
    if isLast, !key.utf8.elementsEqual((prefix + name).utf8) {
      (isLast, key) = (false, prefix + name)
      return true
    }
    isLast = false
    return (number == nil || numbers.foundTaken()) && ask()
  }

  /// The key is free. True where it is the one to use, false where a lower number is to be asked for before.
  mutating func foundFree() -> Bool {
    guard number != nil, numbers.foundFree() else { return true }
    return !ask()
  }

  private mutating func ask() -> Bool {
    guard let numbered = PublishedName.numbered(name, by: numbers.number) else { return false }
    (number, key) = (numbers.number, prefix + numbered)
    return true
  }
}
