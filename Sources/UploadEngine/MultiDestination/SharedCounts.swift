import FileModel
import Lookup
import OrderedCollections

/// Counts each file once, at the destination where it has come the least far. What is asked takes time for what has changed, not for
/// all files: programs poll the summary.
struct SharedCounts: Sendable {
  /// The standings of a file at the destinations, in their order.
  private typealias Combination = [FileStanding]

  private let nowhere: Combination
  /// Those that were met, with how many files are in each: some dozens, whatever the number of files.
  private var combinations: [(standings: Combination, count: Int)] = []
  private var numbers: LookupTable<Combination, Int> = [:]
  /// Of each file, the number of its combination.
  private var files: LookupTable<FileID, Int> = [:]

  init(destinationCount: Int) { nowhere = Combination(repeating: .none, count: destinationCount) }

  /// Takes what every destination has to say, in their order, and counts.
  mutating func count(_ parts: [CountedFiles]) -> (filesByState: [FileStatus.State: Int], undeliveredCount: Int) {
    for (place, part) in parts.enumerated() {
      for (id, standing) in part.changed { note(id, standing, at: place) }
    }
    var counts = combinations
    // What is at work, or on its way out, is known for this moment alone.
    for id in Set(parts.flatMap { $0.atWork + Array($0.leaving) }) {
      guard let number = files[id] else { continue }
      counts[number].count -= 1
      counts.append((momentary(id, combinations[number].standings, parts), 1))
    }
    var filesByState: [FileStatus.State: Int] = [:]
    var undeliveredCount = parts.contains(where: \.isScanFailing) ? 1 : 0
    for (standings, count) in counts where count > 0 {
      if let state = shownState(standings, parts) { filesByState[state, default: 0] += count }
      if standings.contains(where: \.isUndelivered) { undeliveredCount += count }
    }
    return (filesByState, undeliveredCount)
  }

  private mutating func note(_ id: FileID, _ standing: FileStanding, at place: Int) {
    var standings = nowhere
    if let number = files[id] {
      standings = combinations[number].standings
      combinations[number].count -= 1
    }
    standings[place] = standing
    guard standings != nowhere else {
      files[id] = nil
      return
    }
    let number = number(of: standings)
    combinations[number].count += 1
    files[id] = number
  }

  private mutating func number(of standings: Combination) -> Int {
    if let known = numbers[standings] { return known }
    numbers[standings] = combinations.count
    combinations.append((standings, 0))
    return combinations.count - 1
  }

  private func momentary(_ id: FileID, _ standings: Combination, _ parts: [CountedFiles]) -> Combination {
    zip(standings, parts).map { standing, part in
      var standing = standing
      if standing.kind == .ready, part.atWork.contains(id) { standing.kind = .working }
      // It counts as interrupted, and as nothing that stays.
      if part.leaving.contains(id) { standing.isPending = true }
      return standing
    }
  }

  private func shownState(_ standings: Combination, _ parts: [CountedFiles]) -> FileStatus.State? {
    let states = zip(standings, parts).compactMap { $0.state(whilePaused: $1.isPaused) }
    return states.filter { $0 != .ignored }.max { $0.distance < $1.distance } ?? states.first
  }
}
