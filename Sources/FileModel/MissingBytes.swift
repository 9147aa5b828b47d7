/// Where a content that is not whole has no bytes in the spool: the first places, and how many more there are.
public struct MissingBytes: Hashable, Sendable {
  /// No more places are listed.
  public static let rangesMax = 32

  /// In their order, apart from each other.
  public private(set) var ranges: [Range<UInt64>]
  /// Places behind those.
  public private(set) var furtherRanges: Int

  /// Of ranges in any order; nil where nothing is missing. What was given back to the disk, because a server has it, is not missing.
  package init?(_ missing: [Range<UInt64>], besides released: ReleasedChunks? = nil) {
    var places: [Range<UInt64>] = []
    for range in missing.sorted(by: { $0.lowerBound < $1.lowerBound }) {
      if let last = places.last, range.lowerBound <= last.upperBound {
        places[places.count - 1] = last.lowerBound..<max(last.upperBound, range.upperBound)
      } else {
        places.append(range)
      }
    }
    places = places.flatMap { released?.rest(of: $0) ?? [$0] }.filter { !$0.isEmpty }
    guard !places.isEmpty else { return nil }
    ranges = Array(places.prefix(Self.rangesMax))
    furtherRanges = places.count - ranges.count
  }
}
