import Lookup
import OrderedCollections

/// Why a disk operation fails.
enum DiskFailure: Error, Hashable {
  case broken
  case full
  /// The machine crashed: no cleanup runs.
  case crashed
}

/// A disk with a page cache: what was not synced may be lost, in part and in any order, when the power fails. Names are
/// kept in the order in which they were made, as a journaling filesystem does.
///
/// What the disk refuses the kernel keeps in memory as if it had been written, until it needs the room. It reports that
/// once, to the next sync of the file: each file is open once between two starts of its machine's process.
final class SimulatedDisk {
  /// One file, under any name.
  final class Node {
    let number: UInt64
    fileprivate(set) var bytes: [UInt8] = []
    /// When it was last written to, by the clock of its machine.
    fileprivate(set) var modifiedMilliseconds: Int64 = 0
    /// What the disk has.
    fileprivate(set) var durable: [UInt8] = []
    fileprivate var dirty: LookupSet<Int> = []
    fileprivate var refused: LookupSet<Int> = []
    /// A refusal was not reported yet.
    fileprivate var hasError = false

    /// Some of the file is in memory alone, and may be lost without a crash.
    var isInDoubt: Bool { !refused.isEmpty || hasError }

    fileprivate init(number: UInt64) { self.number = number }
  }

  private enum NameChange {
    case link(String, Node)
    case unlink(String)
  }

  /// Half of a write may be on the disk; a sector is there or not.
  fileprivate static let sectorBytes = 32

  private var names: OrderedDictionary<String, Node> = [:]
  private var durableNames: OrderedDictionary<String, Node> = [:]
  private var unsynced: [NameChange] = []
  private var nextNumber: UInt64 = 1
  var clock: () -> Int64 = { 0 }
  /// Called before every effect; throws when the effect is to fail.
  var admit: (EffectKind) throws(DiskFailure) -> Void = { _ throws(DiskFailure) in }

  func node(_ path: String) -> Node? { names[path] }

  func bytes(_ path: String) -> [UInt8]? { names[path]?.bytes }

  func paths(below folder: String) -> [String] { names.keys.filter { $0.hasPrefix(folder) }.sorted() }

  func create(_ path: String) throws(DiskFailure) {
    try admit(.write)
    let node = Node(number: nextNumber)
    nextNumber += 1
    change(.link(path, node))
  }

  func write(_ path: String, _ bytes: [UInt8], at offset: Int) throws(DiskFailure) {
    try admit(.write)
    guard let node = names[path] else { throw .broken }
    if node.bytes.count < offset + bytes.count {
      node.bytes += [UInt8](repeating: 0, count: offset + bytes.count - node.bytes.count)
    }
    node.bytes.replaceSubrange(offset..<offset + bytes.count, with: bytes)
    node.becomesDirty(offset..<offset + bytes.count)
    node.modifiedMilliseconds = clock()
  }

  func append(_ path: String, _ bytes: [UInt8]) throws(DiskFailure) {
    guard let node = names[path] else { throw .broken }
    try write(path, bytes, at: node.bytes.count)
  }

  func truncate(_ path: String, to count: Int) throws(DiskFailure) {
    try admit(.write)
    guard let node = names[path] else { throw .broken }
    if count < node.bytes.count {
      cut(path, to: count)
    } else {
      node.bytes += [UInt8](repeating: 0, count: count - node.bytes.count)
    }
  }

  /// Flips a bit.
  func damage(_ path: String, from first: Int = 0, using random: inout SeededGenerator) {
    guard let node = names[path], first < node.bytes.count,
      let index = node.bytes.indices.dropFirst(first).randomElement(using: &random)
    else { return }
    node.bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    node.writeBack(refuses: { false })
  }

  /// Cuts off a torn end, which cannot fail.
  func cut(_ path: String, to count: Int) {
    guard let node = names[path], count < node.bytes.count else { return }
    node.bytes.removeLast(node.bytes.count - count)
    node.dirty = node.dirty.filter { $0 * Self.sectorBytes < count }
    node.refused = node.refused.filter { $0 * Self.sectorBytes < count }
  }

  func sync(_ path: String) throws(DiskFailure) {
    guard let node = names[path] else { throw .broken }
    do throws(DiskFailure) {
      try admit(.sync)
    } catch {
      // The syncing caller gets the error, and no later one does.
      if error != .crashed { node.writeBack(refuses: { true }) }
      node.hasError = false
      throw error
    }
    node.writeBack(refuses: { false })
    guard !node.hasError else {
      node.hasError = false
      throw .broken
    }
  }

  /// The kernel writes back without a sync.
  func writeBack(_ path: String, refuses: () -> Bool) {
    if let node = names[path], !node.dirty.isEmpty { node.writeBack(refuses: refuses) }
  }

  /// Some clean pages are evicted: reads return what the disk has instead.
  func drop(_ path: String, drops: () -> Bool = { true }) {
    guard let node = names[path] else { return }
    for sector in node.refused.sorted() where drops() {
      node.refused.remove(sector)
      node.bytes = node.durable(in: sector, of: node.bytes)
    }
  }

  /// All paths on the disk.
  var paths: [String] { names.keys.sorted() }

  func rename(_ from: String, to: String) throws(DiskFailure) {
    try admit(.rename)
    guard let node = names[from] else { throw .broken }
    change(.link(to, node))
    change(.unlink(from))
  }

  func syncNames() throws(DiskFailure) {
    try admit(.sync)
    durableNames = names
    unsynced = []
  }

  /// Removing a name that is not there is no failure.
  func unlink(_ path: String) {
    if names[path] != nil { change(.unlink(path)) }
  }

  private func change(_ change: NameChange) {
    Self.apply(change, to: &names)
    unsynced.append(change)
  }

  private static func apply(_ change: NameChange, to names: inout OrderedDictionary<String, Node>) {
    switch change {
    case .link(let path, let node): names[path] = node
    case .unlink(let path): names.takeOut(path)
    }
  }

  /// The power fails: of what was not synced, some is there and some is not.
  func losePower(using random: inout SeededGenerator) {
    let kept = Int.random(in: 0...unsynced.count, using: &random)
    for index in 0..<kept {
      // The two halves of a rename are one.
      Self.apply(unsynced[index], to: &durableNames)
    }
    if kept < unsynced.count, kept > 0, case .link(_, let node) = unsynced[kept - 1],
      case .unlink(let old) = unsynced[kept], durableNames[old] === node
    {
      durableNames.takeOut(old)
    }
    names = durableNames
    unsynced = []
    for path in names.keys.sorted() { names[path]?.tear(using: &random) }
  }
}

extension SimulatedDisk.Node {
  private static let sectorBytes = SimulatedDisk.sectorBytes

  fileprivate func becomesDirty(_ range: Range<Int>) {
    guard !range.isEmpty else { return }
    for sector in range.lowerBound / Self.sectorBytes...(range.upperBound - 1) / Self.sectorBytes {
      dirty.insert(sector)
      refused.remove(sector)
    }
  }

  fileprivate func writeBack(refuses: () -> Bool) {
    for sector in dirty.sorted() where refuses() {
      refused.insert(sector)
      hasError = true
    }
    dirty = []
    durable = onDisk
  }

  /// As long as the file, with the disk's bytes where it has refused some.
  private var onDisk: [UInt8] { refused.sorted().reduce(bytes) { durable(in: $1, of: $0) } }

  /// These bytes, with the disk's bytes in one sector.
  fileprivate func durable(in sector: Int, of bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    for place in sector
      * Self.sectorBytes..<max(
        sector * Self.sectorBytes, min(bytes.count, (sector + 1) * Self.sectorBytes))
    {
      bytes[place] = place < durable.count ? durable[place] : 0
    }
    return bytes
  }

  /// The kernel writes a file back at any time: all of it may have been on the disk before the power failed, or
  /// nothing, or some sectors. So a journal may record data that is lost.
  fileprivate func tear(using random: inout SeededGenerator) {
    defer {
      dirty = []
      refused = []
      hasError = false
    }
    guard bytes != durable else { return }
    switch Int.random(in: 0..<3, using: &random) {
    case 0: bytes = durable
    case 1: durable = onDisk
    default: tearSectors(using: &random)
    }
    bytes = durable
  }

  private func tearSectors(using random: inout SeededGenerator) {
    let onDisk = onDisk
    var result = [UInt8](repeating: 0, count: random.happens(0.5) ? bytes.count : durable.count)
    for start in stride(from: 0, to: result.count, by: Self.sectorBytes) {
      let source = random.happens(0.5) ? onDisk : durable
      let end = min(start + Self.sectorBytes, result.count, source.count)
      if start < end { result.replaceSubrange(start..<end, with: source[start..<end]) }
    }
    durable = result
  }
}
