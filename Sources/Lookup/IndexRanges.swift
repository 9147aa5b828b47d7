/// A set of indices that is kept as its ranges: a million neighbours cost as much as one.
public struct IndexRanges: Hashable, Sendable {
  /// Ascending, none empty, and none touches the next one.
  public private(set) var ranges: [Range<UInt32>] = []
  /// How many indices there are.
  public private(set) var count = 0

  /// An empty set.
  public init() {}

  /// The indices of these ranges.
  public init(_ ranges: some Sequence<Range<UInt32>>) {
    for range in ranges { insert(range) }
  }

  /// These indices, which are given in ascending order.
  public init(ascending indices: some Sequence<UInt32>) {
    for index in indices where index < .max { insert(index..<(index + 1)) }
  }

  /// There is no index.
  public var isEmpty: Bool { ranges.isEmpty }

  /// The index is there.
  public func contains(_ index: UInt32) -> Bool {
    let position = firstRange { $0.upperBound > index }
    return position < ranges.count && ranges[position].lowerBound <= index
  }

  /// Some index is like that.
  public func contains(where isWanted: (UInt32) -> Bool) -> Bool {
    ranges.contains { $0.contains(where: isWanted) }
  }

  /// All indices, lowest first.
  public func sorted() -> [UInt32] { ranges.flatMap { Array($0) } }

  /// Puts indices in.
  public mutating func insert(_ range: Range<UInt32>) {
    guard !range.isEmpty else { return }
    let start = firstRange { $0.upperBound >= range.lowerBound }
    let end = firstRange { $0.lowerBound > range.upperBound }
    guard start < end else {
      ranges.insert(range, at: start)
      count += range.count
      return
    }
    let merged =
      min(range.lowerBound, ranges[start].lowerBound)..<max(range.upperBound, ranges[end - 1].upperBound)
    count += merged.count - ranges[start..<end].reduce(0) { $0 + $1.count }
    ranges.replaceSubrange(start..<end, with: CollectionOfOne(merged))
  }

  /// Takes indices out.
  public mutating func remove(_ range: Range<UInt32>) {
    guard !range.isEmpty else { return }
    let start = firstRange { $0.upperBound > range.lowerBound }
    let end = firstRange { $0.lowerBound >= range.upperBound }
    guard start < end else { return }
    let left = ranges[start].lowerBound..<max(ranges[start].lowerBound, range.lowerBound)
    let right = min(ranges[end - 1].upperBound, range.upperBound)..<ranges[end - 1].upperBound
    count -= ranges[start..<end].reduce(0) { $0 + $1.count } - left.count - right.count
    ranges.replaceSubrange(start..<end, with: [left, right].filter { !$0.isEmpty })
  }

  /// What of a range is there, in ascending order.
  public func parts(of range: Range<UInt32>) -> [Range<UInt32>] {
    var parts: [Range<UInt32>] = []
    var position = firstRange { $0.upperBound > range.lowerBound }
    while position < ranges.count, ranges[position].lowerBound < range.upperBound {
      parts.append(ranges[position].clamped(to: range))
      position += 1
    }
    return parts.filter { !$0.isEmpty }
  }

  /// What of a range is not there, in ascending order.
  public func gaps(in range: Range<UInt32>) -> [Range<UInt32>] {
    var gaps: [Range<UInt32>] = []
    var start = range.lowerBound
    for part in parts(of: range) {
      if part.lowerBound > start { gaps.append(start..<part.lowerBound) }
      start = part.upperBound
    }
    if start < range.upperBound { gaps.append(start..<range.upperBound) }
    return gaps
  }

  /// What both have.
  public func intersection(_ other: IndexRanges) -> IndexRanges { IndexRanges(ranges.flatMap { other.parts(of: $0) }) }

  /// What the other one lacks.
  public func subtracting(_ other: IndexRanges) -> IndexRanges { IndexRanges(ranges.flatMap { other.gaps(in: $0) }) }

  /// Both have an index.
  public func overlaps(_ other: IndexRanges) -> Bool { ranges.contains { !other.parts(of: $0).isEmpty } }

  /// The position of the first range that is so; they are such from there on.
  private func firstRange(where isBehind: (Range<UInt32>) -> Bool) -> Int {
    var (low, high) = (0, ranges.count)
    while low < high {
      let middle = (low + high) / 2
      if isBehind(ranges[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
