/// Which addresses have worked in the present network, and how fast they answered (RFC 8305, section 4.1). Pure.
struct AddressMemory: Sendable {
  private enum Experience: Hashable {
    case worked(Duration)
    case failed
  }

  /// More than a mount's servers have.
  private static let addressesMax = 256

  private var experiences: [SocketAddress: Experience] = [:]

  /// A connection was made, and took so long.
  mutating func worked(_ address: SocketAddress, after roundTrip: Duration) {
    note(.worked(roundTrip), of: address)
  }

  /// No connection came about while another address took one.
  mutating func failed(_ address: SocketAddress) { note(.failed, of: address) }

  /// The network is another one: nothing is known of it.
  mutating func forget() { experiences = [:] }

  /// Those that worked first, the fastest before the others; those that failed last. The order stays otherwise.
  func sorted(_ addresses: [SocketAddress]) -> [SocketAddress] {
    addresses.enumerated().sorted { left, right in
      let (first, second) = (rank(left.element), rank(right.element))
      return first == second ? left.offset < right.offset : first < second
    }.map(\.element)
  }

  private func rank(_ address: SocketAddress) -> Rank {
    switch experiences[address] {
    case .worked(let roundTrip)?: Rank(kind: 0, roundTrip: roundTrip)
    case nil: Rank(kind: 1, roundTrip: .zero)
    case .failed?: Rank(kind: 2, roundTrip: .zero)
    }
  }

  private struct Rank: Comparable {
    var kind: Int
    var roundTrip: Duration

    static func < (left: Rank, right: Rank) -> Bool { (left.kind, left.roundTrip) < (right.kind, right.roundTrip) }
  }

  private mutating func note(_ experience: Experience, of address: SocketAddress) {
    // All of it is a hint: one that grew too large begins anew.
    if experiences.count >= Self.addressesMax, experiences[address] == nil { experiences = [:] }
    experiences[address] = experience
  }
}
