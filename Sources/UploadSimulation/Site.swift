import FileModel
import UploadEngine

/// One of the destinations of captures.
struct Site {
  /// Its name in rules.
  let name: DestinationName
  let server: ServerKind
  /// The scenario's faults concern this destination and its path; another one is healthy all the time.
  let isTroubled: Bool
  /// The expected state of the destination.
  let oracle: Oracle

  /// All destinations of a run: one, or a healthy and a faulty one.
  static func all(_ world: World) -> [Site] {
    let scenario = world.scenario
    let further = DestinationName("archive").flatMap { name in
      scenario.furtherServers.randomElement(using: &world.random).map { (name, $0) }
    }
    let rules = scenario.limits.rules
    guard let (name, server) = further else {
      if scenario.ignored > 0 { world.oracle.isFor = { rules.settings(for: $0).upload != .never } }
      return [Site(name: .main, server: scenario.server, isTroubled: true, oracle: world.oracle)]
    }
    let sites = [
      Site(name: .main, server: scenario.server, isTroubled: false, oracle: world.oracle),
      Site(name: name, server: server, isTroubled: true, oracle: world.addOracle()),
    ]
    for site in sites { site.oracle.isFor = { rules.settings(for: $0).destinations.contains(site.name) } }
    return sites
  }

  /// Most files go to both destinations.
  static let rules: FileRules = {
    var rules = FileRules()
    rules.defaults.destinations = [.main] + [DestinationName("archive")].compactMap { $0 }
    // Growing chunks are tracked by one client in the simulated spool.
    rules.defaults.upload = .onClose
    rules.rules = ["c.mov to=main", "day/d.dat to=archive"].compactMap { try? FileRule($0) }
    return rules
  }()
}
