import FilesystemCalls

/// What one of several processes does, as a value that a seed alone decides: any part of a sequence can be played again, and that
/// is how a sequence that fails is made short.
struct DrawnOperation: Hashable, Sendable, CustomStringConvertible {
  static let processes = 3
  static let folders = ["a", "b", "a/c"]
  static let names = ["n0", "n1", "n2", "n3", "n4.part", "n5"]

  let process: Int
  let call: Call
  /// Whether all contents are compared after it. Reading all the time would also fill the caches all the time.
  let comparesContents: Bool

  var description: String { "process \(process): \(call)".replacing("FilesystemCalls.", with: "") }

  static func sequence(seed: UInt64, count: Int) -> [DrawnOperation] {
    var draw = OperationDraw(generator: SeededGenerator(seed: seed))
    return (0..<count).map { _ in draw.next() }
  }
}

/// Draws operations. Names, sizes and slots are few, so that operations meet.
private struct OperationDraw {
  var generator: SeededGenerator

  private static let chunk = 256 << 10
  /// What tests set lies before 2020: the system sets what is newer, and each side has its own.
  private static let lastMoment: Int64 = 1_577_836_800_000_000_000

  mutating func next() -> DrawnOperation {
    let process = number(below: DrawnOperation.processes)
    let kinds = Self.kinds
    var ticket = number(below: kinds.reduce(0) { $0 + $1.weight })
    let kind = kinds.first { kind in
      ticket -= kind.weight
      return ticket < 0
    }
    let call = kind?.draw(&self) ?? .list(".")
    return DrawnOperation(process: process, call: call, comparesContents: number(below: 3) == 0)
  }

  /// How often an operation is drawn beside the others, and what it is.
  typealias Kind = (weight: Int, draw: @Sendable (inout OperationDraw) -> Call)

  private static let kinds: [Kind] = descriptors + mappings + names

  private static let descriptors: [Kind] = [
    (24, { $0.open() }),
    (5, { close($0.slot()) }),
    (2, { $0.duplicate() }),
    (12, { .pwrite($0.slot(), $0.payload(), at: $0.offset()) }),
    (8, { $0.write() }),
    (6, { .pread($0.slot(), $0.size(), at: $0.offset()) }),
    (4, { $0.read() }),
    (3, { .drawn(.seek($0.slot(), $0.offset(), $0.one(of: [.start, .current, .end]))) }),
    (3, { .drawn(.seekHole($0.slot(), $0.offset())) }),
    (4, { .ftruncate($0.slot(), $0.offset()) }),
    (5, { .fallocate($0.slot(), $0.one(of: modes), at: $0.offset(), count: Int64($0.size())) }),
    (3, { $0.copy() }),
    (2, { .fsync($0.slot()) }),
    (2, { .fstat($0.slot()) }),
    (2, { .fchmod($0.slot(), $0.one(of: [0o600, 0o640, 0o444])) }),
    (2, { .futimens($0.slot(), access: $0.moment(), modification: $0.moment()) }),
    (5, { .flock($0.slot(), $0.one(of: [.shared, .exclusive, .unlocked])) }),
    (5, { $0.lock() }),
  ]

  private static let modes: [AllocationMode] = [[], .keepSize, [.punchHole, .keepSize], .zero, [.zero, .keepSize]]

  private static let mappings: [Kind] = [
    (7, { .drawn(.map($0.slot())) }),
    (6, { .drawn(.store($0.slot(), at: $0.offset(), $0.payload())) }),
    (4, { .drawn(.load($0.slot(), at: $0.offset(), $0.size())) }),
    (2, { .munmap($0.slot()) }),
  ]

  private static let names: [Kind] = [
    (3, { .mkdir($0.folder()) }),
    (1, { .rmdir($0.folder()) }),
    (4, { .unlink($0.path()) }),
    (8, { .rename($0.path(), $0.path(), $0.one(of: [[], [], [], .noReplace, .exchange])) }),
    (1, { .rename(Path($0.one(of: DrawnOperation.folders)), $0.folder(), $0.one(of: [[], .exchange])) }),
    (3, { .link($0.path(), $0.path()) }),
    (1, { .symlink(Bytes($0.one(of: DrawnOperation.names)), $0.path()) }),
    (2, { .chmod($0.path(), $0.one(of: [0o600, 0o755, 0o444])) }),
    (2, { $0.setTimes() }),
    (3, { .truncate($0.path(), $0.offset()) }),
    (7, { whole($0.path(), .truncate, $0.payload(more: $0.one(of: [0, 0, chunk]))) }),
    (2, { whole($0.path(), .append, $0.payload()) }),
    (2, { .get($0.path()) }),
    (1, { .list(Path($0.one(of: ["."] + DrawnOperation.folders))) }),
  ]

  /// What a slot has open: nothing when a mapping would show a file that its descriptor does not.
  private static func close(_ slot: Slot) -> Call { .sequence([.munmap(slot), .close(slot)]) }

  private static func whole(_ path: Path, _ flags: OpenFlags, _ payload: Payload) -> Call {
    let slot: Slot = "whole"
    let opened = Call.open(path, flags.union([.writeOnly, .create]), mode: 0o600, as: slot)
    return .sequence([opened, .write(slot, payload), .close(slot)])
  }

  private mutating func open() -> Call {
    let access: OpenFlags = one(of: [.readOnly, .writeOnly, .writeOnly, .readWrite, .readWrite])
    let way: OpenFlags = one(of: [
      .create, .create, .create, [.create, .exclusive], .truncate, [.create, .truncate], .noFollow, [],
    ])
    let flags = access.union(way).union(one(of: [[], [], [], .append, .sync]))
    let slot = slot()
    return .sequence([Self.close(slot), .open(path(), flags, mode: one(of: [0o600, 0o644]), as: slot)])
  }

  private mutating func duplicate() -> Call {
    let (one, other) = (slot(), slot())
    return one == other ? .fstat(one) : .sequence([Self.close(other), .dup(one, as: other)])
  }

  private mutating func write() -> Call {
    let slot = slot()
    return .sequence([.write(slot, payload()), .lseek(slot, 0, .current)])
  }

  private mutating func read() -> Call {
    let slot = slot()
    return .sequence([.read(slot, size()), .lseek(slot, 0, .current)])
  }

  private mutating func copy() -> Call {
    let (from, to) = (slot(), slot())
    return .sequence([
      .drawn(.seek(from, offset(), .start)), .drawn(.seek(to, offset(), .start)),
      .copyFileRange(from: from, to: to, size()),
    ])
  }

  private mutating func lock() -> Call {
    .fcntlLock(
      slot(), one(of: [.shared, .exclusive, .unlocked]), start: Int64(number(below: 9)),
      count: Int64(number(below: 9)), ofOpenFile: number(below: 2) == 0)
  }

  private mutating func setTimes() -> Call {
    let path = number(below: 2) == 0 ? path() : Path(one(of: ["."] + DrawnOperation.folders))
    return .utimens(path, access: moment(), modification: moment(), follows: false)
  }

  mutating func number(below bound: Int) -> Int { Int.random(in: 0..<bound, using: &generator) }

  mutating func one<Item>(of items: [Item]) -> Item { items[number(below: items.count)] }

  /// Some folders and names are likelier than the others; some paths lead through what is a file at most times.
  mutating func path() -> Path {
    let folder = one(of: ["", "", "", "a/", "a/", "b/", "a/c/", one(of: DrawnOperation.names) + "/"])
    return Path(folder + one(of: ["n0", "n0", "n1"] + DrawnOperation.names))
  }

  mutating func folder() -> Path { number(below: 4) == 0 ? path() : Path(one(of: DrawnOperation.folders)) }

  mutating func slot() -> Slot { Slot("s\(number(below: 3))") }

  mutating func offset() -> Int64 {
    Int64(one(of: [0, 0, 1, 4095, 4096, 70_000, Self.chunk - 1, Self.chunk, number(below: 2 * Self.chunk)]))
  }

  mutating func size() -> Int { one(of: [0, 1, 100, 4096, 10_000, 65_536, number(below: 200_000)]) }

  mutating func payload(more: Int = 0) -> Payload { .random(seed: generator.next(), count: size() + more) }

  mutating func moment() -> TimeChange { .nanoseconds(Int64.random(in: 0..<Self.lastMoment, using: &generator)) }
}
