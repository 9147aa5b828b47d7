import ReceiverCore

/// Who has how much of the memory for request bodies, who gets some next, and who gives some back. Pure.
///
/// A body gets the memory that it announces before it is read. That makes memory scarce without a byte sent, so each
/// credential has a share: the one that holds least is served first, and where one waits that holds less than its share, bodies of
/// the one that holds most are ended. A single credential may have it all. A body that is larger than all of it is taken
/// alone.
struct MemoryShares {
  /// Names a body.
  typealias ID = UInt64

  /// What became of a body that asks.
  enum Answer: Equatable {
    case granted
    case waits
    case refused
    /// It waits in the place of another one, which is refused.
    case waitsInsteadOf(ID)
  }

  private struct Body {
    var id: ID
    var owner: CredentialID
    var bytes: Int
    /// When it asked.
    var since: Milliseconds
    var isRevoked = false
  }

  static let waitersMax = 256
  static let waitMax: Milliseconds = 10_000
  /// Bodies end by themselves all the time; only one that has waited for so long takes another's place.
  static let patience: Milliseconds = 1000

  private let total: Int
  /// Negative while a body is in memory that is larger than all of it.
  private(set) var free: Int
  private var holding: [Body] = []
  private var waiting: [Body] = []

  init(bytes: Int) {
    total = bytes
    free = bytes
  }

  mutating func take(_ bytes: Int, _ id: ID, of owner: CredentialID, at now: Milliseconds) -> Answer {
    let body = Body(id: id, owner: owner, bytes: bytes, since: now)
    if waiting.isEmpty, hasRoom(for: bytes) {
      grant(body)
      return .granted
    }
    guard waiting.count >= MemoryShares.waitersMax else {
      waiting.append(body)
      return .waits
    }
    let counts = Dictionary(grouping: waiting, by: \.owner).mapValues(\.count)
    guard let most = counts.values.max(), most > counts[owner] ?? 0,
      let last = waiting.lastIndex(where: { counts[$0.owner] == most })
    else { return .refused }
    let other = waiting.remove(at: last)
    waiting.append(body)
    return .waitsInsteadOf(other.id)
  }

  /// Takes bytes of a body back, or all of them; says which have got some.
  mutating func give(_ bytes: Int? = nil, of id: ID) -> [ID] {
    guard let index = holding.firstIndex(where: { $0.id == id }) else { return [] }
    let given = min(bytes ?? .max, holding[index].bytes)
    holding[index].bytes -= given
    free += given
    if bytes == nil { holding.remove(at: index) }
    return serve()
  }

  /// Those that have waited too long, and whose memory is wanted back: of the bodies that are still arriving those of
  /// which the least has arrived.
  mutating func tick(
    at now: Milliseconds, arrived: (ID) -> Int?
  ) -> (late: [ID], granted: [ID], revoked: [ID]) {
    let late = waiting.filter { $0.since + MemoryShares.waitMax <= now }.map(\.id)
    waiting.removeAll { late.contains($0.id) }
    let granted = serve()
    return (late, granted, revoke(at: now, arrived))
  }

  private mutating func revoke(at now: Milliseconds, _ arrived: (ID) -> Int?) -> [ID] {
    guard let next = nextWaiting.map({ waiting[$0] }), next.since + MemoryShares.patience <= now else { return [] }
    let held = heldBytes
    let share = total / Set((holding + waiting).map(\.owner)).count
    let own = held[next.owner] ?? 0
    guard own == 0 || own + next.bytes <= share else { return [] }
    var missing = min(next.bytes, total) - free - holding.filter(\.isRevoked).reduce(0) { $0 + $1.bytes }
    var left = held
    var victims: [Int] = []
    while missing > 0 {
      let candidates = holding.indices.compactMap { index -> (index: Int, held: Int, arrived: Int)? in
        let body = holding[index]
        guard body.owner != next.owner, !body.isRevoked, !victims.contains(index), let bytes = arrived(body.id) else {
          return nil
        }
        let bytesHeld = left[body.owner] ?? 0
        return bytesHeld > share ? (index, bytesHeld, bytes) : nil
      }
      guard let victim = candidates.min(by: { ($1.held, $0.arrived) < ($0.held, $1.arrived) }) else { break }
      let body = holding[victim.index]
      left[body.owner, default: 0] -= body.bytes
      missing -= body.bytes
      victims.append(victim.index)
    }
    // One that is taken alone waits for all others. While some of them stay, the rest would end in vain.
    guard missing <= 0 || next.bytes <= total else { return [] }
    for index in victims { holding[index].isRevoked = true }
    return victims.map { holding[$0].id }
  }

  private var heldBytes: [CredentialID: Int] {
    holding.reduce(into: [:]) { held, body in held[body.owner, default: 0] += body.bytes }
  }

  /// The first of those whose owner holds least.
  private var nextWaiting: Int? {
    let held = heldBytes
    return waiting.indices.min { (held[waiting[$0].owner] ?? 0, $0) < (held[waiting[$1].owner] ?? 0, $1) }
  }

  /// One that is larger than all of it would never find so much free: it is taken where nothing else is.
  private func hasRoom(for bytes: Int) -> Bool { bytes <= free || free == total }

  private mutating func grant(_ body: Body) {
    free -= body.bytes
    holding.append(body)
  }

  private mutating func serve() -> [ID] {
    var served: [ID] = []
    while let next = nextWaiting, hasRoom(for: waiting[next].bytes) {
      let body = waiting.remove(at: next)
      grant(body)
      served.append(body.id)
    }
    return served
  }
}
