import TransferModel

/// Whether certificates need timestamps at present.
public enum TransparencyStanding: Hashable, Sendable {
  /// It is turned off.
  case off
  /// There is no list of logs.
  case withoutList
  /// The list is too old.
  case listTooOld(days: Int64)
  /// There is a list that is so old.
  case enforced(days: Int64)

  /// As the policy is, with a list of that time.
  init(_ policy: TransparencyPolicy, listMadeAtSeconds: Int64?, nowSeconds: Int64) {
    guard policy != .off else {
      self = .off
      return
    }
    guard let listMadeAtSeconds else {
      self = .withoutList
      return
    }
    let days = max(0, nowSeconds - listMadeAtSeconds) / 86_400
    self = days > TransparencyLogList.ageMaxDays ? .listTooOld(days: days) : .enforced(days: days)
  }

  /// A word for programs.
  public var code: String {
    switch self {
    case .off: "off"
    case .withoutList: "no-list"
    case .listTooOld: "list-too-old"
    case .enforced: "enforced"
    }
  }

  /// For people, without an end.
  public var words: String {
    switch self {
    case .off: "Certificate Transparency is off"
    case .withoutList: "Certificate Transparency is not enforced: there is no list of logs (--transparency-logs)"
    case .listTooOld(let days):
      "Certificate Transparency is not enforced: the list of logs is \(days) days old, and \(TransparencyLogList.ageMaxDays) "
        + "are the most; put a newer one in its place (--transparency-logs)"
    case .enforced(let days): "Certificate Transparency is enforced with a list of logs that is \(days) days old"
    }
  }
}

/// What a certificate's timestamps are worth.
public enum TransparencyVerdict: Hashable, Sendable {
  /// No timestamps were needed, as things stand.
  case notNeeded(TransparencyStanding)
  /// The authority was added on this machine, and public logs know nothing of it.
  case exempt
  /// So many count, of these operators, which are sorted.
  case accepted(timestamps: Int, operators: [String])
  /// The reason.
  case refused(String)

  /// Operators that have to vouch.
  private static let operatorsMin = 2

  /// - Parameter endSeconds: when the certificate ends, seconds since 1970.
  static func of(_ timestamps: [TimestampFacts], _ list: TransparencyLogList, endSeconds: Int64?) -> TransparencyVerdict
  {
    var good: [(timestamp: TimestampFacts, log: TransparencyLog)] = []
    var faults: [String] = []
    for timestamp in timestamps {
      switch look(at: timestamp, list, endSeconds: endSeconds) {
      case .counts(let log):
        // A log that has vouched twice has not vouched for more.
        if !good.contains(where: { $0.log.id == log.id }) { good.append((timestamp, log)) }
      case .fault(let words): faults.append(words)
      }
    }
    let operators = Set(good.map(\.log.operatorName)).sorted()
    if operators.count >= operatorsMin, good.contains(where: \.log.isInUse) {
      return .accepted(timestamps: good.count, operators: operators)
    }
    return .refused(words(of: timestamps.count, good.map(\.log), operators, faults))
  }

  private enum Look {
    case counts(TransparencyLog)
    case fault(String)
  }

  private static func look(at timestamp: TimestampFacts, _ list: TransparencyLogList, endSeconds: Int64?) -> Look {
    switch timestamp.validity {
    case .forged: return .fault("one is forged (its signature is not its log's, or its time lies ahead)")
    case .unreadable: return .fault("one cannot be read")
    case .unknownLog: return .fault("one is of a log that is not in the list")
    case .valid: break
    }
    guard let log = list[timestamp.log] else { return .fault("one is of a log that is not in the list") }
    if let ends = log.ends, let endSeconds, !ends.contains(endSeconds) {
      return .fault(
        "one is of the log “\(log.name)”, which takes no certificates that end\(ChainVerdict.day(endSeconds))")
    }
    if log.isInUse { return .counts(log) }
    guard log.state == .retired else {
      return .fault("one is of the log “\(log.name)”, which is \(log.state.rawValue)")
    }
    // What is in the certificate cannot have been exchanged since; anything else could have come from another log.
    let wasMadeBefore = Int64(clamping: timestamp.millisecondsSince1970 / 1000) < log.stateSinceSeconds
    guard timestamp.isEmbedded, wasMadeBefore else {
      return .fault("one is of the log “\(log.name)”, which was retired\(ChainVerdict.day(log.stateSinceSeconds))")
    }
    return .counts(log)
  }

  private static func words(of count: Int, _ good: [TransparencyLog], _ operators: [String], _ faults: [String])
    -> String
  {
    guard count > 0 else { return "it shows no timestamps of certificate logs" }
    var parts: [String] = []
    switch (good.count, operators.count) {
    case (0, _): parts.append("none of its \(count) timestamps counts")
    case (1, _): parts.append("one timestamp counts, that of the log “\(good[0].name)” (\(good[0].operatorName))")
    case (_, 1): parts.append("all timestamps that count are of logs of one operator, \(operators[0])")
    default: parts.append("all timestamps that count are of logs that were retired")
    }
    return (parts + faults).joined(separator: "; ")
  }
}
