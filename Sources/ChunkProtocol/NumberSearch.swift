/// Looks for the first number of a name that is free: some in a row, then in steps that double, of which the last is halved until the first
/// free number behind a taken one is found.
///
/// Between the numbers that are checked, one that is free may be passed over. Thousands of files of one name so cost a few checks more than
/// those in a row.
public struct NumberSearch: Sendable {
  private enum Phase {
    case counting
    /// This number is taken, and a later one is checked.
    case leaping(taken: Int)
    /// The first is taken, the second is free; what is checked lies between.
    case halving(taken: Int, free: Int)
  }

  private static let numberMax = 1 << 30

  private let first: Int
  private let counted: Int
  /// What is to be checked, or used.
  public private(set) var number: Int
  private var phase = Phase.counting

  /// Begins with `first`, and looks at so many in a row.
  public init(from first: Int, counting counted: Int) {
    (self.first, self.counted, number) = (first, counted, first)
  }

  /// Another file has it; false where there is no further one.
  public mutating func foundTaken() -> Bool {
    switch phase {
    case .counting where number - first + 1 < counted: number += 1
    case .counting:
      phase = .leaping(taken: number)
      number += 2
    case .leaping(let taken):
      phase = .leaping(taken: number)
      number += 2 * (number - taken)
    case .halving(_, let free):
      phase = .halving(taken: number, free: free)
      number += max(1, (free - number) / 2)
    }
    return number <= Self.numberMax
  }

  /// It is free, or finds no room in the name. False where it is the first such one, true where a lower one is to be checked before.
  public mutating func foundFree() -> Bool {
    let taken: Int
    switch phase {
    case .counting: return false
    case .leaping(let last): taken = last
    case .halving(let last, _): taken = last
    }
    guard number - taken > 1 else { return false }
    phase = .halving(taken: taken, free: number)
    number = taken + (number - taken) / 2
    return true
  }
}
