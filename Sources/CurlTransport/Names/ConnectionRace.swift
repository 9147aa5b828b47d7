/// Which of a server's addresses is connected to, and when: Happy Eyeballs, version 2 (RFC 8305). Pure.
///
/// Names are asked for in both families at once. The first attempt waits for the addresses of IPv6 for 50 ms at most. Further
/// attempts follow every 250 ms, or as soon as one has failed, alternating between the families; the earlier ones go on. The first
/// connection wins.
struct ConnectionRace {
  /// What the driver is to do.
  enum Action: Hashable {
    /// Begin to connect; answer with ``connected(_:)`` or ``failed(_:at:)``.
    case connect(SocketAddress)
    /// The race is over. The addresses in the order in which they are to be tried, the winner first; none where none can be
    /// connected to, or there are none.
    case end(winner: SocketAddress?, [SocketAddress])
  }

  private enum Answer {
    case awaited
    case addresses([SocketAddress])
  }

  /// RFC 8305, section 3.
  static let resolutionDelay: Duration = .milliseconds(50)
  /// RFC 8305, section 5.
  static let attemptDelay: Duration = .milliseconds(250)
  /// Further addresses are not tried.
  static let addressesMax = 16

  private let memory: AddressMemory
  private var answers: [SocketAddress.Family: Answer] = [.ipv6: .awaited, .ipv4: .awaited]
  /// Addresses of IPv4 came first, and are not used before this time.
  private var waitsForIPv6Until: ContinuousClock.Instant?
  private var tried: [SocketAddress] = []
  private var failed: Set<SocketAddress> = []
  private var nextAttemptAt: ContinuousClock.Instant?
  private(set) var isOver = false

  /// An attempt has begun.
  var hasTried: Bool { !tried.isEmpty }

  /// Names are being asked for.
  init(_ memory: AddressMemory) { self.memory = memory }

  /// When ``woke(at:)`` is to be called; nil when nothing is waited for but answers.
  var nextDeadline: ContinuousClock.Instant? {
    guard !isOver else { return nil }
    if tried.isEmpty { return waitsForIPv6Until }
    return waiting.isEmpty ? nil : nextAttemptAt
  }

  /// The resolver has answered for one family; no addresses where the name has none, or where it failed.
  mutating func resolved(
    _ family: SocketAddress.Family, _ addresses: [SocketAddress], at now: ContinuousClock.Instant
  ) -> [Action] {
    guard !isOver else { return [] }
    answers[family] = .addresses(Array(addresses.prefix(Self.addressesMax)))
    if family == .ipv4, isAwaited(.ipv6), !addresses.isEmpty { waitsForIPv6Until = now + Self.resolutionDelay }
    return proceed(at: now)
  }

  /// A deadline has come.
  mutating func woke(at now: ContinuousClock.Instant) -> [Action] { isOver ? [] : proceed(at: now) }

  /// An attempt has succeeded: the others are of no use any more.
  mutating func connected(_ address: SocketAddress) -> [Action] {
    guard !isOver else { return [] }
    isOver = true
    let others = ordered.filter { $0 != address && !failed.contains($0) }
    return [.end(winner: address, [address] + others + ordered.filter { failed.contains($0) })]
  }

  /// An attempt has failed: the next one follows at once.
  mutating func failed(_ address: SocketAddress, at now: ContinuousClock.Instant) -> [Action] {
    guard !isOver else { return [] }
    failed.insert(address)
    nextAttemptAt = now
    return proceed(at: now)
  }

  /// The time for the whole race is over.
  mutating func giveUp() -> [Action] {
    guard !isOver else { return [] }
    isOver = true
    return [.end(winner: nil, ordered)]
  }

  private mutating func proceed(at now: ContinuousClock.Instant) -> [Action] {
    let isComplete = !isAwaited(.ipv6) && !isAwaited(.ipv4)
    // There is nothing to choose: the library connects for itself, and its limits hold.
    if isComplete, tried.isEmpty, ordered.count == 1 { return giveUp() }
    if tried.isEmpty, let until = waitsForIPv6Until, isAwaited(.ipv6), now < until { return [] }
    if let address = waiting.first {
      guard tried.isEmpty || nextAttemptAt.map({ now >= $0 }) ?? true else { return [] }
      tried.append(address)
      nextAttemptAt = now + Self.attemptDelay
      return [.connect(address)]
    }
    guard failed.count == tried.count, isComplete else { return [] }
    return giveUp()
  }

  private func isAwaited(_ family: SocketAddress.Family) -> Bool {
    if case .awaited? = answers[family] { true } else { false }
  }

  /// Those that are known and were not tried, in order.
  private var waiting: [SocketAddress] { ordered.filter { !tried.contains($0) } }

  /// The known ones: those that worked last, the fastest first; then, in turns, those of both families, IPv6 first, in the
  /// order of the resolver (RFC 6724); last those that failed.
  private var ordered: [SocketAddress] {
    let lists = SocketAddress.Family.allCases.map { family -> [SocketAddress] in
      if case .addresses(let list)? = answers[family] { list } else { [] }
    }
    var turns: [SocketAddress] = []
    for index in 0..<(lists.map(\.count).max() ?? 0) {
      for list in lists where index < list.count { turns.append(list[index]) }
    }
    return memory.sorted(turns)
  }
}
