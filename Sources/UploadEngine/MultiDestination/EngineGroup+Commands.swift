public import FileModel

/// One file at a time, at all of its destinations or at one.
extension EngineGroup {
  /// Obeys an order. One for all destinations is obeyed where it applies, and refused where it applies nowhere. On return the
  /// decision is durable.
  public func execute(_ order: FileOrder, on id: FileID) throws(FileOrderRefusal) {
    var asked = members.filter { order.destination == nil || $0.name == order.destination }
    if order.command == .resend {
      // What has failed or was cancelled at another one stays so.
      let having = asked.filter { $0.engine.status(of: id)?.state == .complete }
      if !having.isEmpty { asked = having }
    }
    guard !asked.isEmpty else { throw .unknownDestination }
    var refusal: FileOrderRefusal?
    var obeying: [Member] = []
    for member in asked {
      let outcome = member.engine.outcome(of: order.command, on: id)
      switch outcome.refusal {
      case nil: obeying.append(member)
      // What is said of a place that the file does not go to comes last.
      case let reason?: refusal = outcome == .goesElsewhere ? refusal ?? reason : reason
      }
    }
    guard !obeying.isEmpty else { throw refusal ?? .unknownFile }
    for member in obeying { try member.engine.keepDecision(about: id) }
  }
}
