import FileModel

/// The programs that write captures: each performs a few actions on a name of its choice, with pauses, and ends when
/// its mount does.
final class SimulatedWriters {
  private static let fewNames = ["a", "b", "c.mov", "day/d.dat", "day/e"].map { RelativePath($0) }
  /// A rule excludes these names from upload.
  private static let ignoredNames = ["a.skip", "c.mov.skip", "day/d.skip"].map { RelativePath($0) }
  private static let temporaryNames = ["a.part", "c.mov.tmp", "day/d.dat~"].map { RelativePath($0) }

  private unowned let world: World
  private unowned let capture: SimulatedCapture
  private let finalNames: [RelativePath]
  private var open: [(file: SimulatedCapture.File, mount: Int)] = []
  private var isEnded = false

  init(_ world: World, _ capture: SimulatedCapture) {
    self.world = world
    self.capture = capture
    let folders = (0..<world.scenario.folders).flatMap { folder in
      ["a", "c.mov"].map { RelativePath("folder \(folder)/\($0)") }
    }
    let further = (0..<world.scenario.furtherNames).map { RelativePath("small/\($0)") }
    finalNames = folders.isEmpty ? Self.fewNames + further : folders
  }

  /// Spreads the programs' starts over the active time.
  func start(until end: Duration) {
    for _ in 0..<Int.random(in: world.scenario.writers, using: &world.random) {
      let delay = Duration.microseconds(Int64.random(in: 0...end.microseconds, using: &world.random))
      world.time.after(delay / 2) { [self] in runOne() }
    }
  }

  /// A small file, one of several chunks that is renamed when it is whole, and one that is rewritten while it is sent.
  func runFixed() {
    let small = RelativePath("small")
    let large = RelativePath("large.part")
    let rewritten = RelativePath("rewritten")
    plain(small, 40, at: .milliseconds(10))
    plain(large, 600, at: .milliseconds(30))
    world.time.after(.milliseconds(80)) { [self] in
      if capture.isMounted { capture.rename(large, to: RelativePath("large")) }
    }
    plain(rewritten, 300, at: .milliseconds(50))
    plain(rewritten, 310, at: .milliseconds(120))
    plain(rewritten, 200, at: .seconds(6))
  }

  private func plain(_ name: RelativePath, _ count: Int, at delay: Duration) {
    world.time.after(delay) { [self] in
      guard capture.isMounted, !isEnded else { return }
      let mount = capture.mount
      let file = capture.open(name)
      guard capture.mount == mount else { return }
      let bytes = content(count)
      change(file, .size(0)) { self.capture.truncate(file, to: 0) }
      guard capture.mount == mount else { return }
      change(file, .bytes(at: 0, count)) { self.capture.write(file, bytes, at: 0) }
      if capture.mount == mount { capture.close(file) }
    }
  }

  /// Writes a new file in good conditions; true once it is closed.
  func writeProbe(_ name: RelativePath, _ count: Int, closed: @escaping () -> Void) {
    let file = capture.open(name)
    let mount = capture.mount
    let bytes = content(count)
    change(file, .bytes(at: 0, count)) { self.capture.write(file, bytes, at: 0) }
    world.time.after(world.random.duration(.microseconds(20)...(.seconds(2)))) { [self] in
      guard capture.mount == mount, capture.isMounted else { return }
      capture.close(file)
      closed()
    }
  }

  /// All programs close their files.
  func end() {
    isEnded = true
    for entry in open where entry.mount == capture.mount && capture.isMounted { capture.close(entry.file) }
    open = []
  }

  private func runOne() {
    guard !isEnded else { return }
    guard capture.isMounted else { return again() }
    let scenario = world.scenario
    let name = pick(finalNames)
    switch true {
    case world.random.happens(scenario.unlinks): capture.unlink(pick(finalNames + Self.temporaryNames))
    case world.random.happens(scenario.attributes):
      capture.setAttributes(of: name, mode: UInt32.random(in: 0o400...0o777, using: &world.random))
    case world.random.happens(scenario.renames / 2): capture.rename(pick(finalNames), to: name)
    case world.random.happens(scenario.renamesAway):
      capture.rename(name, to: pick(Self.temporaryNames))
    case scenario.ignored > 0 && world.random.happens(scenario.ignored): useIgnoredName(name)
    case world.random.happens(0.03): capture.link(name, as: pick(finalNames))
    case world.random.happens(scenario.truncations): truncateByName(name)
    case world.random.happens(scenario.patches): patch(name)
    case world.random.happens(scenario.renames):
      let temporary = pick(Self.temporaryNames)
      write(temporary) { [self] in capture.rename(temporary, to: name) }
    default: write(name) {}
    }
    if world.random.happens(scenario.rewrites) { again() }
  }

  /// A capture gets such a name, loses it, has both, or is created under it and then gets its own.
  private func useIgnoredName(_ name: RelativePath) {
    let ignored = pick(Self.ignoredNames)
    switch Int.random(in: 0..<5, using: &world.random) {
    case 0: capture.rename(name, to: ignored)
    case 1: capture.rename(ignored, to: name)
    case 2: capture.link(name, as: ignored)
    case 3: write(ignored) {}
    default: write(ignored) { [self] in capture.rename(ignored, to: name) }
    }
  }

  private func again() {
    world.time.after(world.random.duration(world.scenario.rests)) { [self] in runOne() }
  }

  private func pick(_ names: [RelativePath]) -> RelativePath {
    names[Int.random(in: 0..<names.count, using: &world.random)]
  }

  private func content(_ count: Int) -> [UInt8] {
    if world.scenario.zeros > 0, world.random.happens(world.scenario.zeros) {
      return [UInt8](repeating: 0, count: count)
    }
    guard world.random.happens(world.scenario.compressible) else { return world.random.bytes(count) }
    let pattern = world.random.bytes(5)
    return (0..<count).map { pattern[$0 % pattern.count] }
  }

  private func truncateByName(_ name: RelativePath) {
    guard let file = capture.file(named: name) else { return }
    let count = Int.random(in: 0...(file.bytes.count + 40), using: &world.random)
    change(file, .size(UInt64(count))) { self.capture.truncate(file, to: count) }
  }

  /// The file keeps its length.
  private func patch(_ name: RelativePath) {
    guard capture.file(named: name) != nil else { return }
    let mount = capture.mount
    let file = capture.open(name)
    guard capture.mount == mount else { return }
    open.append((file, mount))
    step(1) { [self] isLast in
      if isLast { return close(file) }
      let bytes = content(file.bytes.count)
      change(file, .bytes(at: 0, bytes.count)) { self.capture.write(file, bytes, at: 0) }
    }
  }

  /// Opens, writes in pieces, closes, and then does the rest.
  private func write(_ name: RelativePath, then rest: @escaping () -> Void) {
    let mount = capture.mount
    let file = capture.open(name)
    world.trace("writer opens \(name.displayText)")
    // The daemon may have crashed during it.
    guard capture.mount == mount else { return }
    open.append((file, mount))
    let pieces = Int.random(in: world.scenario.pieces, using: &world.random)
    var first = true
    step(pieces) { [self] isLast in
      if isLast {
        if world.scenario.kills > 0, world.random.happens(world.scenario.kills) { return close(file, isKilled: true) }
        close(file)
        world.trace("writer closes \(name.displayText) with \(file.bytes.count) bytes")
        rest()
      } else {
        mutate(file, mayTruncate: first)
        first = false
      }
    }
  }

  /// Calls `body` so many times and once more for the end, each after a pause, if the mount lives.
  private func step(_ count: Int, _ body: @escaping (_ isLast: Bool) -> Void) {
    let mount = capture.mount
    world.time.after(world.random.duration(world.scenario.pauses)) { [self] in
      guard capture.mount == mount, capture.isMounted, !isEnded else { return }
      body(count == 0)
      if count > 0, capture.mount == mount { step(count - 1, body) }
    }
  }

  private func close(_ file: SimulatedCapture.File, isKilled: Bool = false) {
    guard let index = open.firstIndex(where: { $0.file === file && $0.mount == capture.mount }) else { return }
    open.remove(at: index)
    if isKilled { return capture.kill(file) }
    let mount = capture.mount
    capture.close(file)
    if world.strikes(world.scenario.waits), capture.mount == mount { capture.wait(for: file) }
  }

  /// One instantaneous change.
  private func change(_ file: SimulatedCapture.File, _ extent: ContentExtent, _ body: () -> Void) {
    let mount = capture.mount
    // The disk may have refused it, or the daemon have crashed during it.
    guard let mutation = capture.beginMutation(of: file, extent), capture.mount == mount, capture.isMounted else {
      return
    }
    guard !capture.refuses(extent, of: file) else { return capture.endMutation(mutation, of: file) }
    body()
    if case .bytes(let range) = extent {
      capture.endMutation(mutation, of: file, writtenBytes: range.count)
    } else {
      capture.endMutation(mutation, of: file)
    }
  }

  private func mutate(_ file: SimulatedCapture.File, mayTruncate: Bool) {
    if mayTruncate, world.random.happens(0.4) {
      return change(file, .size(0)) { capture.truncate(file, to: 0) }
    }
    let limit = world.scenario.fileBytesMax
    let offset =
      world.random.happens(0.6) ? file.bytes.count : Int.random(in: 0...file.bytes.count, using: &world.random)
    if world.scenario.overwrites > 0, !file.bytes.isEmpty, world.random.happens(world.scenario.overwrites) {
      let bytes = content(file.bytes.count)
      return change(file, .bytes(at: 0, bytes.count)) { capture.write(file, bytes, at: 0) }
    }
    let room = min(max(0, limit - offset), world.scenario.largePieceBytes ?? .max)
    let bytes = content(Int.random(in: 0...room, using: &world.random))
    let mount = capture.mount
    let extent = ContentExtent.bytes(at: offset, bytes.count)
    guard let mutation = capture.beginMutation(of: file, extent), capture.mount == mount, capture.isMounted else {
      return
    }
    guard !capture.refuses(extent, of: file) else { return capture.endMutation(mutation, of: file) }
    // A write is not one moment: its first half can be seen before the other.
    capture.write(file, Array(bytes[..<(bytes.count / 2)]), at: offset)
    world.time.after(world.random.duration(world.scenario.writeTime)) { [self] in
      guard capture.mount == mount, capture.isMounted else { return }
      capture.write(file, Array(bytes[(bytes.count / 2)...]), at: offset + bytes.count / 2)
      capture.endMutation(mutation, of: file, writtenBytes: bytes.count)
      if world.strikes(world.scenario.synchronizations), file.activity.writableOpens > 0 {
        world.trace("an fsync of \(file.snapshot.brief) \(capture.synchronize(file) ? "succeeds" : "fails")")
      }
    }
  }
}

extension ContentExtent {
  fileprivate static func bytes(at offset: Int, _ count: Int) -> ContentExtent {
    .bytes(UInt64(offset)..<UInt64(offset + count))
  }
}
