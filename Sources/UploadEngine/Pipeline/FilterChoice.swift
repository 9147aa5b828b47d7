import Integrity

/// Finds the filter that suits a sample, by trying those that may.
enum FilterChoice {
  /// So many bytes tell which strides may suit.
  private static let lookBytes = 8 << 10
  /// The strides that are tried.
  private static let stridesMax = 3
  /// A longer stride has to be alike in more bytes by this part of them than a shorter one: its multiples are as alike.
  private static let strideAdvantage = 200

  /// Those that may suit one of the samples.
  static func candidates(for samples: [UnsafeRawBufferPointer]) -> [RecordFilter] {
    var filters: [RecordFilter] = []
    for sample in samples {
      for filter in candidates(for: sample) where !filters.contains(filter) { filters.append(filter) }
    }
    return filters
  }

  /// No filter, and those whose strides have the most bytes that are nearly the same as their like in the record before. Of the words that
  /// make up a record only the longest are tried. The same with shorter ones (stereo as two words of 16 bits) is at most a fiftieth
  /// shorter. Words that do not divide the record leave more than single bytes (three floats and a colour, 15 bytes).
  private static func candidates(for sample: UnsafeRawBufferPointer) -> [RecordFilter] {
    var filters = [RecordFilter.none]
    for stride in likelyStrides(of: UnsafeRawBufferPointer(rebasing: sample.prefix(lookBytes))) {
      let words = RecordFilter.wordLengths.filter { $0 > 1 && stride.isMultiple(of: $0) }
      for difference in [0, 1] + words.suffix(1) {
        guard let filter = RecordFilter(stride: stride, difference: difference), filter != .none else { continue }
        filters.append(filter)
      }
    }
    return filters
  }

  private static func likelyStrides(of sample: UnsafeRawBufferPointer) -> [Int] {
    var strides: [(stride: Int, alike: Int)] = []
    for stride in RecordFilter.strides where stride < sample.count {
      strides.append((stride, bytesAlike(sample, stride)))
    }
    let margin = sample.count / strideAdvantage
    var chosen: [Int] = []
    while chosen.count < stridesMax, let best = strides.map(\.alike).max() {
      guard let place = strides.firstIndex(where: { $0.alike + margin >= best }) else { break }
      let stride = strides[place].stride
      chosen.append(stride)
      strides.removeAll { $0.stride.isMultiple(of: stride) && stride > 1 || $0.stride == stride }
    }
    return chosen
  }

  private static func bytesAlike(_ sample: UnsafeRawBufferPointer, _ stride: Int) -> Int {
    var count = 0
    for position in stride..<sample.count {
      // From 4 below to 3 above.
      let distance = sample[position] &- sample[position - stride] &+ 4
      count &+= distance < 8 ? 1 : 0
    }
    return count
  }
}
