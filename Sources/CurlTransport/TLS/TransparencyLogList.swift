import FoundationEssentials
import Integrity
import Quantities

/// A certificate log (RFC 6962), as a list tells of it.
struct TransparencyLog: Hashable, Sendable {
  /// What its timestamps count for; the names are those of the lists of browsers.
  enum State: String, Sendable {
    case pending, qualified, usable, readonly, retired, rejected
  }

  /// SHA-256 of ``key``.
  var id: [UInt8]
  /// Its public key, as DER.
  var key: [UInt8]
  /// For people.
  var name: String
  /// Who runs it: two logs of one operator count as one.
  var operatorName: String
  /// What its timestamps count for.
  var state: State
  /// Since when, seconds since 1970.
  var stateSinceSeconds: Int64
  /// It takes certificates that end in this time; nil for all.
  var ends: Range<Int64>?

  /// New certificates may show its timestamps.
  var isInUse: Bool {
    switch state {
    case .qualified, .usable, .readonly: true
    case .pending, .retired, .rejected: false
    }
  }
}

/// The logs that count, and of when the list is. A list grows old: logs come and go.
struct TransparencyLogList: Hashable, Sendable {
  /// Why a text is no list.
  struct Problem: Error, Hashable {
    /// Follows “the file …”.
    var words: String
  }

  /// Older ones are not enforced, as browsers do it.
  static let ageMaxDays: Int64 = 70

  /// Seconds since 1970.
  let madeAtSeconds: Int64
  private let logs: [[UInt8]: TransparencyLog]

  /// Reads the form in which browsers publish theirs (log_list.json, version 3), of which only what is needed must be there.
  init(json: [UInt8]) throws(Problem) {
    let document: Document
    do {
      document = try JSONDecoder().decode(Document.self, from: Data(json))
    } catch {
      throw Problem(words: "is no list of certificate logs: \(Self.place(of: error))")
    }
    guard let seconds = document.log_list_timestamp.flatMap(Timestamp.seconds) else {
      throw Problem(
        words:
          "does not say of when it is (log_list_timestamp, such as 2026-11-22T00:00:00Z); Apple's list does not: add the time "
          + "at which it was fetched")
    }
    madeAtSeconds = seconds
    var logs: [[UInt8]: TransparencyLog] = [:]
    for operated in document.operators {
      for entry in (operated.logs ?? []) + (operated.tiled_logs ?? []) {
        let log = try Self.log(entry, of: operated.name)
        logs[log.id] = log
      }
    }
    guard !logs.isEmpty else { throw Problem(words: "names no log") }
    self.logs = logs
  }

  /// The log with this id.
  subscript(id: [UInt8]) -> TransparencyLog? { logs[id] }

  /// In the order of their ids.
  var all: [TransparencyLog] { logs.values.sorted { $0.id.lexicographicallyPrecedes($1.id) } }

  /// Whole days since it was made; 0 for one of the future.
  func ageDays(at nowSeconds: Int64) -> Int64 { max(0, nowSeconds - madeAtSeconds) / 86_400 }

  /// The same as OpenSSL reads it.
  var openSSLConfiguration: String {
    let logs = all
    let names = logs.indices.map { "log\($0)" }.joined(separator: ",")
    let sections = logs.enumerated().map { index, log in
      "[log\(index)]\ndescription = log\(index)\nkey = \(Base64.encode(log.key))\n"
    }
    return "enabled_logs = \(names)\n" + sections.joined()
  }

  private static func log(_ entry: Document.Log, of operatorName: String) throws(Problem) -> TransparencyLog {
    let name = entry.description ?? entry.log_id ?? entry.key
    guard let key = Base64.decode(entry.key), !key.isEmpty else {
      throw Problem(words: "has a key that is no base64, at the log \(name)")
    }
    let id = sha256(key).bytes
    if let said = entry.log_id, Base64.decode(said) != id {
      throw Problem(words: "has a log_id that is not the key's SHA-256, at the log \(name)")
    }
    guard let (state, fact) = entry.state?.first, entry.state?.count == 1 else {
      throw Problem(words: "does not say which state a log has, at the log \(name)")
    }
    var ends: Range<Int64>?
    if let interval = entry.temporal_interval {
      guard let start = Timestamp.seconds(interval.start_inclusive),
        let end = Timestamp.seconds(interval.end_exclusive),
        start <= end
      else { throw Problem(words: "has no two times in temporal_interval, at the log \(name)") }
      ends = start..<end
    }
    return TransparencyLog(
      // A state that is not known yet does not count.
      id: id, key: key, name: name, operatorName: operatorName,
      state: TransparencyLog.State(rawValue: state) ?? .rejected,
      stateSinceSeconds: fact.timestamp.flatMap(Timestamp.seconds) ?? .min, ends: ends)
  }

  private static func place(of error: any Error) -> String {
    guard let error = error as? DecodingError else { return "\(error)" }
    let (context, missing): (DecodingError.Context, String) =
      switch error {
      case .keyNotFound(let key, let context): (context, "“\(key.stringValue)” is missing")
      case .typeMismatch(_, let context): (context, "another kind of value is needed")
      case .valueNotFound(_, let context): (context, "a value is needed")
      case .dataCorrupted(let context): (context, "it is no JSON")
      @unknown default: (DecodingError.Context(codingPath: [], debugDescription: ""), "it is not understood")
      }
    let path = context.codingPath.map(\.stringValue).joined(separator: ".")
    return path.isEmpty ? missing : "\(missing) at \(path)"
  }

  /// The names are those of the file.
  private struct Document: Decodable {
    /// Apple's list has none.
    var log_list_timestamp: String?
    var operators: [Operator]

    struct Operator: Decodable {
      var name: String
      var logs: [Log]?
      /// Those that are read in tiles; their timestamps are the same.
      var tiled_logs: [Log]?
    }

    struct Log: Decodable {
      var description: String?
      var log_id: String?
      var key: String
      var state: [String: State]?
      var temporal_interval: Interval?
    }

    struct State: Decodable {
      var timestamp: String?
    }

    struct Interval: Decodable {
      var start_inclusive: String
      var end_exclusive: String
    }
  }
}
