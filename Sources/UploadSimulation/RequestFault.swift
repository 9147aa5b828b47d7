import TransferModel

/// The fault of a request.
enum RequestFault {
  case arrives
  /// The attempt to connect is not answered.
  case silent
  case refused, unknownHost
  case breaks, stalls
  /// Swallowed whole, and never answered.
  case hangs
  case answerIsLost
  case answerIsLate(Duration)
  case arrivesTwice
  /// The connection is lost, and a publishing request reaches the receiver after that.
  case goesAstray(Duration)
  case arrivesDamaged
  /// A proxy between the two sides answers.
  case answered(HTTPResponse)

  var stopsHalfway: Bool {
    switch self {
    case .breaks, .stalls: true
    default: false
    }
  }
}

extension World {
  func drawFault() -> RequestFault {
    if strikes(scenario.refusals) { return random.happens(0.5) ? .refused : .unknownHost }
    if strikes(scenario.lostRequests) { return .breaks }
    if strikes(scenario.stalls) { return .stalls }
    if strikes(scenario.hangs) { return .hangs }
    if strikes(scenario.lostAnswers) { return .answerIsLost }
    if strikes(scenario.lateAnswers) { return .answerIsLate(random.duration(.milliseconds(100)...(.seconds(60)))) }
    if strikes(scenario.duplicates) { return .arrivesTwice }
    if strikes(scenario.strays) { return .goesAstray(random.duration(strayTime)) }
    if strikes(scenario.damage) { return .arrivesDamaged }
    if strikes(scenario.badGateways) { return .answered(HTTPResponse(status: pick([500, 502, 504, 599]))) }
    if strikes(scenario.busyAnswers) {
      let seconds = String(Int.random(in: 0...40, using: &random))
      return .answered(HTTPResponse(status: pick([429, 503]), headers: [HTTPHeader("retry-after", seconds)]))
    }
    if strikes(scenario.tooEarly) { return .answered(HTTPResponse(status: 425)) }
    if strikes(scenario.forgottenSessions) { return .answered(HTTPResponse(status: pick([404, 410]))) }
    if strikes(scenario.nonsense) { return .answered(nonsense()) }
    if strikes(scenario.hardRefusals) { return .answered(HTTPResponse(status: pick([400, 401, 403, 413]))) }
    return .arrives
  }

  /// No client waits for longer than two seconds.
  private var strayTime: ClosedRange<Duration> {
    bug == .strayLonger ? .seconds(3)...(.seconds(20)) : .milliseconds(1)...(.milliseconds(1900))
  }

  private func nonsense() -> HTTPResponse {
    let bodies: [[UInt8]] = [
      [], Array("{".utf8), Array("<html>welcome</html>".utf8), Array("{\"id\":\"..\",\"chunk_size\":-1}".utf8),
      random.bytes(40), Array("{\"missing\":[0,99999999]}".utf8), Array("[[[[[[".utf8),
    ]
    return HTTPResponse(
      status: pick([200, 201, 204, 206, 302, 409, 418]), body: bodies[Int.random(in: 0..<bodies.count, using: &random)])
  }

  private func pick(_ numbers: [Int]) -> Int { numbers[Int.random(in: 0..<numbers.count, using: &random)] }
}
