import TransferModel

/// The addresses of one destination, and the one that traffic goes to: the healthiest whose breaker allows it
/// (docs/design/scheduling.md#failures).
///
/// All addresses lead to the same receiver, so a session continues over another one. Traffic stays where it is while
/// that address is about as healthy as the best: switching between two good addresses would cost a handshake each time.
struct EndpointTable: Sendable {
  private struct Endpoint: Sendable {
    var breaker = CircuitBreaker()
    /// The part of the latest requests that were answered, 0…1, later ones counting more.
    var health = 1.0
    /// Failures since the last answer.
    var failuresInRow = 0
    var failedAt = MonotonicTime(nanoseconds: 0)

    /// How suspect the address is; one failure may be an accident of one request.
    var suspicion: Int { min(failuresInRow, 2) }
  }

  /// The weight of the latest request in ``Endpoint/health``.
  private static let weight = 0.2
  /// Another address must be healthier by this much to be worth a handshake.
  private static let margin = 0.1

  private var endpoints: [Endpoint]
  private(set) var current = EndpointID.first

  /// At least one address.
  init(count: Int) { endpoints = Array(repeating: Endpoint(), count: max(1, count)) }

  var count: Int { endpoints.count }

  /// The health of an address, 0…1, for people and for the choice.
  func health(of id: EndpointID) -> Double { endpoint(id).health }

  func state(of id: EndpointID) -> CircuitBreaker.State { endpoint(id).breaker.state }

  /// The address for the next request.
  mutating func choose(at now: MonotonicTime) -> EndpointID {
    let open = ids.filter { endpoint($0).breaker.allowsRequest(at: now) }
    // When no breaker allows traffic, the address that was best is as good a guess as any. How often it is tried is
    // decided by the gate.
    let candidates = open.isEmpty ? ids : open
    guard let best = candidates.max(by: { isWorse($0, $1) }) else { return current }
    let stays =
      candidates.contains(current) && endpoint(current).failuresInRow == 0
      && endpoint(current).health + Self.margin >= endpoint(best).health
    if !stays { current = best }
    return current
  }

  /// True when another address than this one has not failed lately: traffic can go there at once.
  func hasAlternative(to id: EndpointID, at now: MonotonicTime) -> Bool {
    ids.contains { $0 != id && endpoint($0).failuresInRow == 0 && endpoint($0).breaker.allowsRequest(at: now) }
  }

  /// An answer came over this address: any, also a refusal.
  mutating func succeeded(_ id: EndpointID) {
    change(id) { endpoint in
      endpoint.breaker.succeeded()
      endpoint.health += Self.weight * (1 - endpoint.health)
      endpoint.failuresInRow = 0
    }
  }

  /// No answer came over this address, or one that shows that the server is not well.
  mutating func failed(_ id: EndpointID, at now: MonotonicTime) {
    change(id) { endpoint in
      endpoint.breaker.failed(at: now)
      endpoint.health -= Self.weight * endpoint.health
      endpoint.failuresInRow += 1
      endpoint.failedAt = now
    }
  }

  private var ids: [EndpointID] { endpoints.indices.map(EndpointID.init) }

  private func endpoint(_ id: EndpointID) -> Endpoint {
    endpoints.indices.contains(id.index) ? endpoints[id.index] : Endpoint()
  }

  private mutating func change(_ id: EndpointID, _ body: (inout Endpoint) -> Void) {
    guard endpoints.indices.contains(id.index) else { return }
    body(&endpoints[id.index])
  }

  /// More suspect; then less healthy, or equally healthy and configured later. Of addresses that fail again and again
  /// the one that has not been tried for longest is the better guess: their earlier health no longer counts.
  private func isWorse(_ left: EndpointID, _ right: EndpointID) -> Bool {
    let (a, b) = (endpoint(left), endpoint(right))
    if a.suspicion != b.suspicion { return a.suspicion > b.suspicion }
    if a.suspicion == 2, a.failedAt != b.failedAt { return a.failedAt > b.failedAt }
    return a.health == b.health ? left > right : a.health < b.health
  }
}
