import Lookup
import TransferModel

/// The addresses of requests: none goes to an address that has just failed while there is one that has not.
struct AddressChecks {
  private enum Latest { case good, failed, unclear }

  private var latest: LookupTable<EndpointID, Latest> = [:]

  /// The violation in a decision to send there; nil when there is none.
  func chosen(_ endpoint: EndpointID, of count: Int) -> TraceLine? {
    guard latest[endpoint] == .failed else { return nil }
    let better = (0..<count).map { EndpointID($0) }.first { latest[$0] == nil || latest[$0] == .good }
    return better.map { "a request goes to address \(endpoint.index), which failed, and not to \($0.index)" }
  }

  /// No address's health is known.
  mutating func forget() {
    for endpoint in latest.sorted().map(\.key) { latest[endpoint] = .unclear }
  }

  /// Any answer counts; a request that the client cancelled may have been ended by a watchdog or no longer be wanted.
  mutating func ended(_ endpoint: EndpointID, _ outcome: StepOutcome) {
    if case .each(let outcomes) = outcome, outcomes.contains(where: { if case .refused = $0 { true } else { false } }) {
      // The address answers, and refuses a file for now.
      latest[endpoint] = .unclear
      return
    }
    guard case .refused(let failure) = outcome else {
      latest[endpoint] = .good
      return
    }
    switch failure.kind {
    case .transport(.cancelled): if latest[endpoint] != nil { latest[endpoint] = .unclear }
    case .transport, .serverError, .misdirected, .unexpectedAnswer: latest[endpoint] = .failed
    default: latest[endpoint] = .good
    }
  }
}
