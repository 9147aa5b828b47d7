package import TransferModel

/// Pauses of this program.
extension UploadSchedule {
  /// The program resumes after a pause. The state of its connections is not known. Idle ones are dropped, and one
  /// connection is warmed for open files before the others are. One request to an unavailable destination shows whether
  /// it is available now.
  package mutating func resumed(after pause: Duration, at now: ClockReading) {
    actions.append(.report(.resumed(after: pause)))
    actions.append(.renewConnections)
    destination.path.doubt()
    link.connectionsLost()
    let isProbing = destination.gate.endPause(at: now.monotonic)
    if isProbing { timers.insert(.gate, at: now.monotonic) }
    prewarm(.resumed(isProbing: isProbing), at: now)
  }

  /// The machine's links, addresses or routes have changed. The transport knows whose way is gone. An unavailable destination may
  /// be reachable now: it is tried at once, and once a second at most, however many changes there are.
  package mutating func networkChanged(at now: ClockReading) {
    actions.append(.networkChanged)
    guard let closedAt = destination.gate.closedAt else { return }
    let soon = max(now.monotonic, closedAt + .seconds(1))
    guard destination.gate.shorten(to: soon) else { return }
    timers.insert(.gate, at: soon)
  }

  /// A request is in flight that shows whether the path works.
  func isTryingPath(at now: ClockReading) -> Bool {
    guard let trial = destination.path.trial.flatMap({ requests[$0] }) else { return false }
    return destination.path.isUnderWay(sentAt: trial.sentAt, at: now.monotonic)
  }

  /// The first request after a pause tries the path, unless its answer takes the server a while: chunks that a commit
  /// waits for may wait for it.
  mutating func tryPath(with request: HTTPRequestID, _ order: SendOrder, at now: ClockReading) {
    guard destination.path.isInDoubt, !isTryingPath(at: now), !order.isAnsweredLate else { return }
    destination.path.tryWith(request)
    timers.start(.pathTrial, at: now.monotonic + PathProof.trialTime)
  }

  /// A connection has taken bytes since the pause, or a first part of an answer has come: the path works. The end of a
  /// long body is not waited for.
  mutating func pathTook(_ body: SentBody, of request: HTTPRequestID, at now: ClockReading) {
    guard destination.path.isInDoubt, request == destination.path.trial, body.bytes > 0 || body.answered > 0 else {
      return
    }
    destination.path.prove()
    checkPlannedSessions(at: now)
  }
}
