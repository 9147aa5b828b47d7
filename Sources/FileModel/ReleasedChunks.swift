/// Parts of a file whose bytes are no longer in the spool, because a server holds them and the disk was full
/// (docs/semantics.md, S70): whole chunks, given back as holes.
///
/// A pure value; the filesystem keeps it under the file's lock, and as an extended attribute of the spool's file, which is
/// on the disk before the hole is made.
package struct ReleasedChunks: Hashable, Sendable {
  /// More separate runs than this are not kept track of: their text still fits into an extended attribute.
  package static let runsMax = 128
  /// No chunk is longer: one is read as a whole to see whether it is there after all.
  package static let chunkBytesMax = 32 << 20

  package let chunkBytes: Int
  /// Chunk indices, in their order, never touching each other.
  package private(set) var runs: [Range<UInt64>] = []
  /// What they contained, all together; nil where that is not known of each of them.
  package private(set) var contents: ReleasedContents? = ReleasedContents()

  package init(chunkBytes: Int) {
    self.chunkBytes = max(1, chunkBytes)
  }

  package var isEmpty: Bool { runs.isEmpty }

  /// Takes a chunk in, with the SHA-256 of what it contained; false when there are too many separate runs already.
  package mutating func insert(_ index: Int, digest: [UInt8]? = nil) -> Bool {
    guard index >= 0, index < ChunkActivity.countMax else { return false }
    let chunk = UInt64(index)
    if runs.contains(where: { $0.contains(chunk) }) { return true }
    guard insertRun(of: chunk) else { return false }
    contents = digest.flatMap { contents?.adding($0, at: chunk) }
    return true
  }

  private mutating func insertRun(of chunk: UInt64) -> Bool {
    let place = runs.firstIndex { $0.lowerBound > chunk } ?? runs.count
    let joinsNext = place < runs.count && runs[place].lowerBound == chunk + 1
    if place > 0, runs[place - 1].upperBound == chunk {
      runs[place - 1] = runs[place - 1].lowerBound..<(joinsNext ? runs[place].upperBound : chunk + 1)
      if joinsNext { runs.remove(at: place) }
    } else if joinsNext {
      runs[place] = chunk..<runs[place].upperBound
    } else {
      guard runs.count < Self.runsMax else { return false }
      runs.insert(chunk..<(chunk + 1), at: place)
    }
    return true
  }

  /// Whether any byte of a range is missing.
  package func intersects(_ bytes: Range<UInt64>) -> Bool {
    guard !bytes.isEmpty else { return false }
    let size = UInt64(chunkBytes)
    let first = bytes.lowerBound / size
    let last = (bytes.upperBound - 1) / size
    return runs.contains { $0.lowerBound <= last && first < $0.upperBound }
  }

  /// What of a range is not missing.
  package func rest(of bytes: Range<UInt64>) -> [Range<UInt64>] {
    var rest: [Range<UInt64>] = []
    var start = bytes.lowerBound
    for run in runs {
      let gone = (run.lowerBound * UInt64(chunkBytes)..<run.upperBound * UInt64(chunkBytes)).clamped(to: bytes)
      guard !gone.isEmpty else { continue }
      rest.append(start..<gone.lowerBound)
      start = gone.upperBound
    }
    return (rest + [start..<bytes.upperBound]).filter { !$0.isEmpty }
  }

  /// Whether a mutation needs bytes that are missing: it would leave a chunk of which only a part is known.
  package func isNeeded(for extent: ContentExtent) -> Bool {
    switch extent {
    case .bytes(let range), .blocks(let range): intersects(range)
    case .size(let bytes): bytes % UInt64(chunkBytes) != 0 && intersects(bytes..<(bytes + 1))
    }
  }

  /// The file gets another size: what lies behind it is no longer missing.
  package mutating func cut(at sizeBytes: UInt64) {
    let end = sizeBytes / UInt64(chunkBytes) + (sizeBytes % UInt64(chunkBytes) == 0 ? 0 : 1)
    let left = runs.compactMap { run in
      let left = run.clamped(to: 0..<end)
      return left.isEmpty ? nil : left
    }
    guard left != runs else { return }
    runs = left
    contents = isEmpty ? ReleasedContents() : nil
  }

  /// A chunk is there after all, with what it contained. Where there would be too many separate runs it counts as missing still.
  package mutating func remove(_ index: UInt64, digest: [UInt8]? = nil) {
    guard let place = runs.firstIndex(where: { $0.contains(index) }) else { return }
    let run = runs[place]
    let rest = [run.lowerBound..<index, index + 1..<run.upperBound].filter { !$0.isEmpty }
    guard runs.count - 1 + rest.count <= Self.runsMax else { return }
    runs.replaceSubrange(place...place, with: rest)
    contents = isEmpty ? ReleasedContents() : digest.flatMap { contents?.removing($0, at: index) }
  }

  /// The same chunks, found by their zeros.
  package var withoutContents: Self {
    var found = self
    if !isEmpty { found.contents = nil }
    return found
  }

  /// Whether these are what the chunks contained, as far as that is known. Nil where it is not.
  package func held(_ digestOf: (Int) -> [UInt8]?) -> Bool? {
    guard let contents else { return nil }
    var told = ReleasedContents()
    for index in runs.joined() {
      guard let digest = digestOf(Int(index)), let sum = told.adding(digest, at: index) else { return false }
      told = sum
    }
    return told == contents
  }

  // MARK: - As text

  /// The length of a chunk and the runs: `4194304 1-57 60-60`.
  package var text: String {
    ([String(chunkBytes)] + runs.map { "\($0.lowerBound)-\($0.upperBound - 1)" }).joined(separator: " ")
  }

  /// What ``text`` says; nil for anything else.
  package init?(_ text: String) {
    let words = text.split(separator: " ")
    guard let first = words.first, let chunkBytes = Int(first), (1...Self.chunkBytesMax).contains(chunkBytes),
      words.count <= Self.runsMax + 1
    else { return nil }
    self.init(chunkBytes: chunkBytes)
    for word in words.dropFirst() {
      let ends = word.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0) }
      guard ends.count == 2, let start = ends[0], let last = ends[1], start <= last,
        last < UInt64(ChunkActivity.countMax), runs.last.map({ $0.upperBound < start }) ?? true
      else { return nil }
      runs.append(start..<(last + 1))
    }
    contents = isEmpty ? ReleasedContents() : nil
  }

  /// What the chunks contained, in a member of its own, which versions before this one leave as it is when they give up more or less: so it
  /// says of which chunks it is. Nil where it is not known, or nothing is missing.
  package var contentsText: String? {
    contents.flatMap { isEmpty ? nil : "\($0.text) \(mark)" }
  }

  /// What ``contentsText`` says, where it is of these chunks.
  package mutating func takeContents(_ text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false)
    guard !isEmpty, words.count == 2, words[1] == mark else { return }
    contents = ReleasedContents(words[0])
  }

  /// Tells these chunks from others: their text's FNV-1a.
  private var mark: String {
    let hash = text.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    return String(hash, radix: 16)
  }
}

/// What given-up chunks contained, as one number: the sum of their digests, each times an odd number of its place. However many they are, it
/// is as short, and tells what was sent from older bytes of a chunk. Against a server that lies it proves nothing.
package struct ReleasedContents: Hashable, Sendable {
  private var sum: UInt64 = 0

  package init() {}

  private static func term(_ digest: [UInt8], at index: UInt64) -> UInt64? {
    guard digest.count >= 8 else { return nil }
    return digest[..<8].reduce(0) { $0 << 8 | UInt64($1) } &* (2 &* index &+ 1)
  }

  fileprivate func adding(_ digest: [UInt8], at index: UInt64) -> Self? {
    guard let term = Self.term(digest, at: index) else { return nil }
    var changed = self
    changed.sum &+= term
    return changed
  }

  fileprivate func removing(_ digest: [UInt8], at index: UInt64) -> Self? {
    guard let term = Self.term(digest, at: index) else { return nil }
    var changed = self
    changed.sum &-= term
    return changed
  }

  fileprivate var text: String { String(sum, radix: 16) }

  fileprivate init?(_ text: Substring) {
    guard let sum = UInt64(text, radix: 16) else { return nil }
    self.sum = sum
  }
}

/// Chunks of one file that a server holds and that may be given back to the disk.
public struct ReleaseCandidate: Hashable, Sendable {
  /// The file.
  public var id: FileID
  /// The length of a chunk, by which indices count.
  public var chunkBytes: Int
  /// Which, in their order, each with the epoch at which it was sent: with any other it must stay. Of a file that is being
  /// written this is the chunk's own epoch (``FileContents/stableEpoch(of:at:)``), else the file's.
  public var chunks: [Chunk]
  /// The file is being written.
  public var isGrowing: Bool
  /// The upload that holds them, for the file's label.
  public var pointer: SessionPointer?

  /// One chunk.
  public struct Chunk: Hashable, Sendable {
    /// Its place in the file, counted in chunks.
    public var index: Int
    /// The epoch that was sent.
    public var epoch: UInt64
    /// SHA-256 of what was sent, for the file's label; nil where it is not known.
    public var digest: [UInt8]?

    /// Names one chunk at one epoch.
    public init(index: Int, epoch: UInt64, digest: [UInt8]? = nil) {
      self.index = index
      self.epoch = epoch
      self.digest = digest
    }
  }

  /// Names chunks of a file.
  public init(id: FileID, chunkBytes: Int, chunks: [Chunk], isGrowing: Bool, pointer: SessionPointer? = nil) {
    self.pointer = pointer
    self.id = id
    self.chunkBytes = chunkBytes
    self.chunks = chunks
    self.isGrowing = isGrowing
  }
}
