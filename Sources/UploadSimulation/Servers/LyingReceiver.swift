import ReceiverCore
import TransferModel

/// The receiver, which lies in the words of its protocol. It carries out some requests and answers something else, and
/// answers others without doing anything.
final class LyingReceiver: SimulatedPeer {
  /// A request that is not carried out.
  private final class Pretence: PeerExchange {
    private var answer: (([UInt8]?) -> Void)?

    init(_ answer: @escaping ([UInt8]?) -> Void) { self.answer = answer }

    func arrive(_ bytes: [UInt8]) { end(bytes) }
    func breakOff(after arrived: [UInt8]) { end(nil) }

    private func end(_ bytes: [UInt8]?) {
      let answer = answer
      self.answer = nil
      answer?(bytes)
    }
  }

  private unowned let world: World
  private let receiver: SimulatedReceiver
  private let lie: ReceiverLie

  init(_ world: World) {
    self.world = world
    receiver = SimulatedReceiver(world)
    lie = ReceiverLie.allCases.randomElement(using: &world.random) ?? .broken
    world.trace("receiver: lies by \(lie)")
  }

  var isUp: Bool { receiver.isUp }
  var isQuiet: Bool { receiver.isQuiet }
  var leftovers: [String] { receiver.leftovers }
  func start() { receiver.start() }
  func crash() { receiver.crash() }
  func liftQuota() { receiver.liftQuota() }
  func retryQuarantined() { receiver.retryQuarantined() }
  func letKernelWork(isPressed: Bool) { receiver.letKernelWork(isPressed: isPressed) }
  func rot() { receiver.rot() }
  func shown(_ name: String) -> [UInt8]? { receiver.shown(name) }
  func checkPublished() { receiver.checkPublished() }

  func begin(
    _ request: WireRequest, content: @escaping () -> [UInt8], answer: @escaping (HTTPResponse?) -> Void
  ) -> (any PeerExchange)? {
    let asked = ReceiverLie.Asked(ForeignRequest(wire: request, body: []))
    guard isUp, !world.isHealed, lie.strikes(asked, &world.random) else {
      return receiver.begin(request, content: content, answer: answer)
    }
    if lie.isOfAnswer(asked) {
      return receiver.begin(request, content: content) { [self] honest in
        guard let honest else { return answer(nil) }
        tell(lie.answer(to: asked, honest, &world.random), answer)
      }
    }
    return Pretence { [self] bytes in
      guard bytes != nil, isUp else { return answer(nil) }
      tell(lie.answer(to: asked, nil, &world.random), answer)
    }
  }

  private func tell(_ response: HTTPResponse?, _ answer: @escaping (HTTPResponse?) -> Void) {
    guard let response else { return world.trace("receiver: does not answer") }
    world.trace("receiver: lies with \(response.status)")
    guard lie == .late else { return answer(response) }
    world.time.after(world.random.duration(.seconds(1)...(.seconds(300)))) { answer(response) }
  }
}
