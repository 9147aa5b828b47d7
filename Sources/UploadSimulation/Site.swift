import FileModel
import UploadEngine

/// One of the places that captures go to.
struct Site {
  /// What rules call it.
  let name: DestinationName
  let server: ServerKind
  /// The scenario's trouble befalls it and the way to it; another one is well all the time.
  let isTroubled: Bool
  /// What is true there.
  let oracle: Oracle

  /// All of a run: one, or one that is well and one that is not.
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

  /// Most files go to both places.
  static let rules: FileRules = {
    var rules = FileRules()
    rules.defaults.destinations = [.main] + [DestinationName("archive")].compactMap { $0 }
    // Chunks that grow are followed by one client in the simulated spool.
    rules.defaults.upload = .onClose
    rules.rules = ["c.mov to=main", "day/d.dat to=archive"].compactMap { try? FileRule($0) }
    return rules
  }()
}
