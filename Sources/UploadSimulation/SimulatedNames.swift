import FileModel
import Lookup
import TransferModel
import UploadEngine

/// The published names of captures: the real names and their real ledger, which outlives the process. A decision takes
/// time, as the disk does, and fails with it.
final class SimulatedNames {
  private struct Job {
    var wanted: [(file: FileID, path: RelativePath)]
    var admits: () -> Bool
    var then: (_ isDecided: Bool) -> Void
  }

  private unowned let world: World
  private unowned let capture: SimulatedCapture
  /// Nil where no capture has a name but its path.
  private var ledger: NameLedger?
  private let checks: NameChecks?
  private var mistakes = NameMistakes()
  /// The published names of this start.
  private(set) var known: PublishedNames?
  private var jobs: [Job] = []
  private var isDeciding = false
  private var life = 0

  init(_ world: World, _ capture: SimulatedCapture) {
    self.world = world
    self.capture = capture
    checks = world.scenario.nameTemplates.isEmpty ? nil : NameChecks(world, capture)
    world.oracle.names = checks
  }

  var isQuiet: Bool { jobs.isEmpty && !isDeciding }

  /// Another process, with another template, or none; returns it.
  func start(recalling entries: [CatalogEntry], publishedIn catalog: Catalog?) -> NameTemplate? {
    guard let text = world.scenario.nameTemplates.randomElement(using: &world.random) else { return nil }
    do {
      var rules = FileRules()
      rules.defaults.name = text.isEmpty ? nil : try NameTemplate(text)
      if world.bug == .forgetNames { ledger = nil }
      // Without a ledger, and without a template, names by templates would be other captures' paths, which costs numbers.
      if ledger != nil, rules.haveNames, world.strikes(world.scenario.lostLedgers) {
        world.trace("client: the record of names is lost")
        ledger = nil
      }
      guard ledger != nil || rules.haveNames else { return nil }
      if ledger == nil { ledger = try begin(after: entries, publishedIn: catalog) }
      let names = PublishedNames(rules: rules, host: "camera", ledger: ledger)
      let present = entries.filter { !$0.state.isHistory }.map(\.id)
      try names.recall(present)
      if world.bug == .mistakeIdentities { mistakes.exchange(present) }
      known = names
      world.trace("client: names are \(text)")
      return rules.defaults.name
    } catch {
      world.fail(.names, "names by \(text) cannot be made")
      return nil
    }
  }

  /// The first record, which learns from catalogs what was published.
  private func begin(after entries: [CatalogEntry], publishedIn catalog: Catalog?) throws -> NameLedger {
    mistakes.recordBegins()
    if world.bug != .forgetNames { checks?.recordBegins(after: entries, given: try catalog?.givenNames() ?? []) }
    guard world.bug != .forgetNames, world.bug != .overlookPlainNames else { return try NameLedger() }
    let ledger = try NameLedger(after: entries)
    guard let catalog, world.bug != .overlookPublications else { return ledger }
    let present = LookupTable(
      entries.lazy.filter { !$0.state.isHistory }.map {
        ($0.id, PresentCapture(publishedPaths: $0.publishedPaths, receiptName: $0.receipt?.name))
      })
    try ledger.learn(from: catalog) { present[$0] }
    return ledger
  }

  func die() {
    life += 1
    jobs = []
    isDeciding = false
    known = nil
  }

  /// Nil while the name has to be decided.
  func name(of file: FileID, at path: RelativePath) -> RelativePath? {
    guard let known else { return path }
    return mistakes.name(of: file, at: path) ?? known.name(of: mistakes.identity(of: file), at: path)
  }

  func shownName(of file: FileID, at path: RelativePath) -> RelativePath {
    known?.shownName(of: file, at: path) ?? path
  }

  func haveNames(_ order: SendOrder) -> Bool {
    known == nil || order.publications.allSatisfy { name(of: $0.file, at: $0.path) != nil }
  }

  func used(by order: SendOrder) {
    guard let checks else { return }
    for (file, path) in order.publications {
      if let name = name(of: file, at: path) { checks.used(name, for: file, at: path) }
    }
  }

  /// As the engine does for what was published at the path of a file that was found.
  func recall(_ file: FileID) {
    do throws(StorageError) {
      try known?.recall([file])
    } catch {
      world.fail(.names, "names cannot be read: \(error.message)")
    }
  }

  func forget(_ file: FileID) {
    known?.forget(file)
    checks?.forgotten(file)
  }

  /// One batch after the other, as the thread does that waits for the disk.
  func decide(
    _ wanted: [(file: FileID, path: RelativePath)], admits: @escaping () -> Bool,
    then: @escaping (_ isDecided: Bool) -> Void
  ) {
    jobs.append(Job(wanted: wanted, admits: admits, then: then))
    if !isDeciding { decideNext() }
  }

  private func decideNext() {
    guard !jobs.isEmpty else { return }
    isDeciding = true
    let (life, job) = (life, jobs.removeFirst())
    world.time.after(world.random.duration(.microseconds(50)...(.milliseconds(20)))) { [self] in
      guard self.life == life else { return }
      let isAdmitted = job.admits()
      guard self.life == life else { return }
      isDeciding = false
      job.then(isAdmitted && decideNow(job.wanted))
      if self.life == life, !isDeciding { decideNext() }
    }
  }

  private func decideNow(_ wanted: [(file: FileID, path: RelativePath)]) -> Bool {
    if world.bug == .inheritLivingNames {
      for (file, path) in wanted { mistakes.inherit(file, at: path) { isElsewhere($0, than: path) } }
    }
    do {
      try known?.decide(wanted.map { (mistakes.identity(of: $0.file), $0.path) })
    } catch {
      world.fail(.names, "names cannot be decided: \(error.message)")
    }
    for (file, path) in wanted {
      // The next file of the batch may have taken the name.
      guard let name = name(of: file, at: path) else { continue }
      world.trace("names: \(file) at \(path.displayText) is \(name.displayText)")
      checks?.used(name, for: file, at: path)
      mistakes.isCalled(name, file, at: path)
    }
    return true
  }

  private func isElsewhere(_ file: FileID, than path: RelativePath) -> Bool {
    let names = capture.file(file)?.names ?? []
    return !names.isEmpty && !names.contains(path)
  }
}
