import FoundationEssentials
import MountConfiguration

/// What `.uploadfs/summary.json` says (docs/summary.schema.json), as far as the commands need it.
struct SummaryReading: Decodable {
  struct Process: Decodable {
    var pid: Int32
    /// Unknown to daemons of earlier versions.
    var pidNamespace: UInt64?
  }
  struct Bytes: Decodable {
    var pending: UInt64
  }
  struct Spool: Decodable {
    /// Unknown to daemons of earlier versions.
    var path: String?
    /// Only where it is a copy.
    var renewed: Renewal?
  }
  struct Renewal: Decodable {
    var message: String
  }

  var process: Process
  var destination: String
  var files: [String: Int]
  var bytes: Bytes
  var rateBytesPerSecond: Double
  var changeSequence: UInt64
  var oldestPendingSequence: UInt64?
  var scanned: Bool
  var lastError: FailureReading?
  /// Unknown to daemons of earlier versions.
  var undeliveredFiles: Int?
  var failedPaths: [String]
  var spool: Spool?
  var destinations: [Destination]?

  /// One of several. Each counts changes for itself.
  struct Destination: Decodable {
    var name: String
    var changeSequence: UInt64
    var oldestPendingSequence: UInt64?
  }

  init(_ json: [UInt8]) throws(ToolFailure) {
    self = try decoded(SummaryReading.self, from: json, name: "summary.json")
  }

  func count(_ state: String) -> Int { files[state] ?? 0 }

  /// Files that are on their way.
  var unfinished: Int { ["writing", "queued", "uploading", "waiting"].reduce(0) { $0 + count($1) } }
}

/// What `status/<path>.json` says (docs/status.schema.json), as far as people want to see it.
struct FileReading: Decodable {
  struct Bytes: Decodable {
    var acknowledged: UInt64
    /// Unknown to daemons of earlier versions.
    var sent: UInt64?
    var total: UInt64
  }
  struct Chunks: Decodable {
    var total: Int
    var done: Int
    var inFlight: Int
    var retried: Int
    var reused: Int
  }
  struct Receipt: Decodable {
    var id: String
    var merkleRoot: String
  }

  struct Compression: Decodable {
    var encoding: String
    var plainBytes: UInt64
    var sentBytes: UInt64
  }

  struct Upload: Decodable {
    var seconds: Double
    var bytesPerSecond: Double?
  }

  /// One of several.
  struct Destination: Decodable {
    var name: String
    var state: String
    var reason: String?
  }

  var path: String
  var publishedName: String
  var state: String
  var reason: String?
  var bytes: Bytes
  var percent: Double
  var rateBytesPerSecond: Double
  var etaSeconds: Double?
  /// Unknown to daemons of earlier versions, as what follows.
  var atStakeBytes: UInt64?
  var upload: Upload?
  var chunks: Chunks
  /// Unknown to daemons of earlier versions.
  var compression: Compression?
  var lastError: FailureReading?
  var nextAttemptAt: String?
  var receipt: Receipt?
  var local: Bool
  var destinations: [Destination]?

  init(_ json: [UInt8]) throws(ToolFailure) {
    self = try decoded(FileReading.self, from: json, name: "a status file")
  }
}

/// A failure in either document.
struct FailureReading: Decodable {
  var code: String
  var message: String
}

/// A daemon of another version may write what this one does not know; that is said, not guessed around.
private func decoded<Value: Decodable>(
  _ type: Value.Type, from json: [UInt8], name: String
) throws(ToolFailure) -> Value {
  let decoder = JSONDecoder()
  decoder.keyDecodingStrategy = .convertFromSnakeCase
  do {
    return try decoder.decode(type, from: Data(json))
  } catch {
    throw ToolFailure(.notAMount, "\(name) of this mount cannot be understood; is the daemon of another version?")
  }
}
