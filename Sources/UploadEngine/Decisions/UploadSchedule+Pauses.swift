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
    streamPlan.connectionsLost()
    if case .closed = gate {
      gate = .closed(until: now.monotonic)
      deadlines.insert(.gate, at: now.monotonic)
    } else if isKeepingWarm {
      warmForOpenFiles(at: now)
    }
  }
}
