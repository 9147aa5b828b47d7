import TransferModel

/// The addresses under which the receiver can be reached, and the fault of each.
final class SimulatedAddresses {
  private enum State: CaseIterable, TraceWord {
    case well
    /// Connections are not answered.
    case silent
    /// Connections are refused.
    case dead
    /// Thirty times slower.
    case slow
    /// A proxy in front of the receiver answers.
    case sick

    var word: String {
      switch self {
      case .well: "well"
      case .silent: "silent"
      case .dead: "dead"
      case .slow: "slow"
      case .sick: "sick"
      }
    }
  }

  static let first = "https://receiver.test"

  private unowned let world: World
  private let origins: [String]
  private var states: [State]

  init(_ world: World) {
    self.world = world
    origins = [Self.first] + (1..<max(1, world.scenario.addresses)).map { "https://receiver\($0).test" }
    states = origins.map { _ in .well }
  }

  var alternatives: [String] { Array(origins.dropFirst()) }
  /// One of the addresses stays dead for good.
  var isOneDead: Bool { states.contains { $0 != .well } }

  func origin(_ index: Int) -> String { origins[index] }
  func index(of url: String) -> Int { origins.firstIndex { url.hasPrefix($0 + "/") } ?? 0 }
  func isSlow(_ index: Int) -> Bool { states[index] == .slow }

  /// For a while one of the addresses has a fault.
  func trouble() {
    let index = Int.random(in: 0..<origins.count, using: &world.random)
    let state = State.allCases[Int.random(in: 1..<State.allCases.count, using: &world.random)]
    states[index] = state
    world.trace("network: \(origins[index]) is \(state)")
    world.time.after(world.random.duration(.milliseconds(500)...(.seconds(120)))) { [self] in
      if !world.isHealed { states[index] = .well }
    }
  }

  /// All are healthy, or all but one.
  func heal() {
    states = origins.map { _ in .well }
    guard origins.count > 1, world.random.happens(0.5) else { return }
    states[Int.random(in: 0..<origins.count, using: &world.random)] = world.random.happens(0.5) ? .dead : .silent
  }

  /// The fault of every request to the address; nil when it is drawn.
  func fault(at index: Int) -> RequestFault? {
    switch states[index] {
    case .well, .slow: nil
    case .silent: .silent
    case .dead: .refused
    case .sick: .answered(HTTPResponse(status: 502))
    }
  }
}
