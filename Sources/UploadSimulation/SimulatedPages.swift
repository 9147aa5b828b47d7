import Lookup

/// The kernel's handling of one file's written pages: which ones the disk is still to take, which it has refused, and
/// which are no longer in memory. A refusal is reported once to each description that was open by then, or to the first
/// that is opened after.
struct SimulatedPages {
  /// An open file: how many refusals were reported to it.
  struct Description {
    fileprivate var told: Int
  }

  private static let pageBytes = 32

  /// What the disk has.
  private var disk: [UInt8] = []
  private var dirty: LookupSet<Int> = []
  /// Pages still in memory, and for the kernel as good as written.
  private var refused: LookupSet<Int> = []
  /// Pages on the disk alone.
  private var absent: LookupSet<Int> = []
  /// What is read at these offsets instead of what was written there.
  private var wrong: LookupTable<Int, UInt8> = [:]
  private var refusalCount = 0
  private var isTold = true

  var isDirty: Bool { !dirty.isEmpty }
  var isRefused: Bool { !refused.isEmpty }
  /// What was written to the file can no longer be read.
  var isWrong: Bool { !wrong.isEmpty }
  func isWrong(in range: Range<Int>) -> Bool { !wrong.isEmpty && range.contains { wrong[$0] != nil } }
  /// The disk has all of it, as it was written.
  var isOnDisk: Bool { dirty.isEmpty && refused.isEmpty && wrong.isEmpty }

  /// A file that was on the disk as a whole when the machine came up.
  mutating func begin(with bytes: [UInt8]) {
    let (count, isTold) = (refusalCount, isTold)
    self = SimulatedPages()
    (refusalCount, self.isTold) = (count, isTold)
    disk = bytes
  }

  // MARK: What programs do

  /// A page that is partly written is read before.
  mutating func wrote(_ range: Range<Int>) {
    for page in Self.pages(of: range) {
      dirty.insert(page)
      refused.remove(page)
      absent.remove(page)
    }
    wrong = wrong.filter { place, _ in !range.contains(place) }
  }

  mutating func cut(to count: Int) {
    let end = (count + Self.pageBytes - 1) / Self.pageBytes
    if count < disk.count { disk.removeLast(disk.count - count) }
    dirty = dirty.filter { $0 < end }
    refused = refused.filter { $0 < end }
    absent = absent.filter { $0 < end }
    wrong = wrong.filter { place, _ in place < count }
  }

  /// What reads return of a file that holds `bytes`.
  func shown(_ bytes: [UInt8]) -> [UInt8] {
    guard !wrong.isEmpty else { return bytes }
    var shown = bytes
    for (place, byte) in wrong.sorted() where place < shown.count { shown[place] = byte }
    return shown
  }

  /// A hole replaces what is there; no program reads it.
  mutating func punch(_ range: Range<Int>, of bytes: [UInt8]) {
    for page in Self.pages(of: range) {
      dirty.remove(page)
      refused.remove(page)
      store(page, of: bytes)
    }
    wrong = wrong.filter { place, _ in !range.contains(place) }
  }

  /// What a power cut leaves of a file that holds `bytes` and has this size on the disk: of each page that was not written back
  /// the new bytes or those that were there before.
  func torn(_ bytes: [UInt8], count: Int, keepsNew: () -> Bool) -> [UInt8] {
    var remains = [UInt8](repeating: 0, count: count)
    for page in Self.pages(of: 0..<count) {
      let isNew = !dirty.contains(page) || keepsNew()
      let source = isNew ? bytes : disk
      let range = page * Self.pageBytes..<min(count, (page + 1) * Self.pageBytes)
      for place in range where place < source.count { remains[place] = source[place] }
    }
    return remains
  }

  /// Reading brings pages into memory, right ones and wrong ones.
  mutating func read(_ range: Range<Int>) {
    for page in Self.pages(of: range) { absent.remove(page) }
  }

  /// What is read counts as intended from now on.
  mutating func accept() { wrong = [:] }

  // MARK: What the kernel does

  /// Dirty pages go to the disk, or are refused.
  mutating func writeBack(_ bytes: [UInt8], refuses: (_ page: Int) -> Bool) {
    let shown = shown(bytes)
    var isRefused = false
    for page in dirty.sorted() {
      if refuses(page) {
        refused.insert(page)
        isRefused = true
      } else {
        store(page, of: shown)
      }
    }
    dirty = []
    guard isRefused else { return }
    refusalCount += 1
    isTold = false
  }

  private mutating func store(_ page: Int, of shown: [UInt8]) {
    let range = page * Self.pageBytes..<min(shown.count, (page + 1) * Self.pageBytes)
    guard !range.isEmpty else { return }
    if disk.count < range.upperBound { disk += [UInt8](repeating: 0, count: range.upperBound - disk.count) }
    disk.replaceSubrange(range, with: shown[range])
  }

  /// Clean pages are evicted; where one was refused, reads return what the disk has from then on.
  mutating func drop(_ bytes: [UInt8], drops: () -> Bool) {
    let pageCount = (bytes.count + Self.pageBytes - 1) / Self.pageBytes
    for page in 0..<pageCount where !dirty.contains(page) && !absent.contains(page) && drops() {
      absent.insert(page)
      guard refused.remove(page) != nil else { continue }
      for place in page * Self.pageBytes..<min(bytes.count, (page + 1) * Self.pageBytes) {
        let byte = place < disk.count ? disk[place] : 0
        wrong[place] = byte == bytes[place] ? nil : byte
      }
    }
  }

  func open() -> Description { Description(told: isTold ? refusalCount : refusalCount - 1) }

  /// Whether the disk has refused something that was not reported to this description.
  mutating func takeError(_ description: inout Description) -> Bool {
    guard description.told != refusalCount else { return false }
    description.told = refusalCount
    isTold = true
    return true
  }

  /// Writes all that is in memory once more; returns the range from the first byte that is not in memory to the last.
  /// What was read from the disk again after a refusal is in memory, and is not what was written (docs/semantics.md,
  /// S41).
  mutating func rewrite(
    _ bytes: [UInt8], believesAll: Bool, leavingOut isReleased: (Range<UInt64>) -> Bool
  ) -> Range<UInt64>? {
    var lost: Range<UInt64>?
    let pageCount = (bytes.count + Self.pageBytes - 1) / Self.pageBytes
    for page in 0..<pageCount {
      let range = UInt64(page * Self.pageBytes)..<UInt64(min(bytes.count, (page + 1) * Self.pageBytes))
      let isReadAgain = !believesAll && isWrong(in: Int(range.lowerBound)..<Int(range.upperBound))
      if !absent.contains(page), !isReadAgain {
        dirty.insert(page)
        refused.remove(page)
      } else if !isReleased(range) {
        lost = (lost?.lowerBound ?? range.lowerBound)..<range.upperBound
      }
    }
    return lost
  }

  private static func pages(of range: Range<Int>) -> Range<Int> {
    range.isEmpty ? 0..<0 : range.lowerBound / pageBytes..<(range.upperBound - 1) / pageBytes + 1
  }
}
