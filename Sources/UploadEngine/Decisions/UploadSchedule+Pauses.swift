/// Time without this program.
extension UploadSchedule {
  /// The program goes on after so long. What its connections have become is not known: those that rest go, one connection is warmed for
  /// what is being written before the others are, and one request to a destination that was not to be had finds out whether it is now.
  package mutating func resumed(after pause: Duration, at now: Moment) {
    actions.append(.report(.resumed(after: pause)))
    actions.append(.renewConnections)
    warmConnections = 0
    warmAnswers = 0
    warmBeginnings = 0
    isPathInDoubt = true
    pathTrial = nil
    link.connectionsLost()
    if gate.endPause(at: now.monotonic) {
      timers.insert(.gate, at: now.monotonic)
    } else if timers.isRunning(.keepWarm) {
      warmForOpenFiles(at: now)
    }
  }

  /// So long others wait for it: a connection has been made by then, or cannot be.
  private static let pathTrialTime: Duration = .seconds(6)

  /// A request is under way that shows whether the path is there: over one that is not, each of many would take its time to fail.
  func isTryingPath(at now: Moment) -> Bool {
    guard isPathInDoubt, let trial = pathTrial.flatMap({ requests[$0] }) else { return false }
    return trial.sentAt + Self.pathTrialTime > now.monotonic
  }

  /// The first request after a pause tries the path, unless its answer takes the server a while: what a commit waits for may wait for it.
  mutating func tryPath(with request: HTTPRequestID, _ purpose: InFlightRequest.Purpose, at now: Moment) {
    guard isPathInDoubt, !isTryingPath(at: now), !purpose.isAnsweredLate else { return }
    pathTrial = request
    timers.start(.pathTrial, at: now.monotonic + Self.pathTrialTime)
  }

  /// A connection has taken bytes since the pause, or a first part of an answer has come: the path is there. A long body is not waited for.
  mutating func pathTook(_ body: SentBody, of request: HTTPRequestID, at now: Moment) {
    guard isPathInDoubt, request == pathTrial, body.bytes > 0 || body.answered > 0 else { return }
    isPathInDoubt = false
    lookAtPlannedSessions(at: now)
  }
}

extension InFlightRequest.Purpose {
  /// The server assembles, or brings to its disk, before it answers.
  fileprivate var isAnsweredLate: Bool {
    switch self {
    case .commit, .secureSession: true
    case .prewarm, .openSession, .querySession, .chunks, .zeros, .abort, .wholeFiles: false
    }
  }
}
