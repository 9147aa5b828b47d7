import ChunkProtocol
import ReceiverCore
import TransferModel

/// The server of the client's requests: a machine that takes them, crashes and comes back.
protocol SimulatedPeer: AnyObject {
  var isUp: Bool { get }
  /// No request is in flight.
  var isQuiet: Bool { get }
  /// The remains of uploads that no client ends.
  var leftovers: [String] { get }
  func start()
  func crash()
  /// The operator gives the client all the room there is.
  func liftQuota()
  /// The operator restarts the server where something could not be read.
  func retryQuarantined()
  /// The work of its kernel once a second.
  func letKernelWork(isPressed: Bool)
  /// One of its own records can no longer be read.
  func rot()
  /// A request's header has arrived; nil when no server listens. `content` is what its body will be. The answer is nil
  /// when the connection is lost.
  func begin(
    _ request: WireRequest, content: @escaping () -> [UInt8], answer: @escaping (HTTPResponse?) -> Void
  ) -> (any PeerExchange)?
  /// The content published under a name.
  func shown(_ name: String) -> [UInt8]?
  /// Everything that is published is what it should be.
  func checkPublished()
}

extension SimulatedPeer {
  func retryQuarantined() {}
  func letKernelWork(isPressed: Bool) {}
  func rot() {}
}

/// One request as the machine sees it.
protocol PeerExchange: AnyObject {
  /// The body is there as a whole.
  func arrive(_ bytes: [UInt8])
  /// The connection is lost mid-body, after these bytes.
  func breakOff(after arrived: [UInt8])
}

extension PeerExchange {
  /// The connection is lost mid-body, and nothing that has arrived is of use.
  func breakOff() { breakOff(after: []) }
}

extension SimulatedReceiver.Exchange: PeerExchange {}

extension SimulatedReceiver: SimulatedPeer {
  var leftovers: [String] { store.leftovers }
  func letKernelWork(isPressed: Bool) { store.letKernelWork(isPressed: isPressed) }
  func rot() { store.rot() }

  func begin(
    _ request: WireRequest, content: @escaping () -> [UInt8], answer: @escaping (HTTPResponse?) -> Void
  ) -> (any PeerExchange)? {
    begin(request) { [isFrameless] in
      var response = $0?.response
      if isFrameless { response?.headers.removeAll { $0.name == HeaderName.bundleEncodings.lowercased() } }
      answer(response)
    }
  }

  func shown(_ name: String) -> [UInt8]? { store.shown(name) }
  func checkPublished() { store.checkPublished() }
}

extension Answer {
  fileprivate var response: HTTPResponse {
    HTTPResponse(
      status: status, headers: fields.map { HTTPHeader($0.name.lowercased(), $0.value) }, body: body,
      connection: HTTPConnectionMetrics(protocolName: "HTTP/1.1"))
  }
}
