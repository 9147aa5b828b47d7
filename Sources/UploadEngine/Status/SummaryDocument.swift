import FileModel
import Integrity

/// Facts of the running daemon for `.uploadfs/summary.json`.
public struct ProcessFacts: Sendable, Hashable {
  /// The daemon's process number.
  public var pid: Int32
  /// Its version.
  public var version: String
  /// When it started, milliseconds since 1970.
  public var startedAtMilliseconds: Int64

  /// Facts of a daemon.
  public init(pid: Int32, version: String, startedAtMilliseconds: Int64) {
    self.pid = pid
    self.version = version
    self.startedAtMilliseconds = startedAtMilliseconds
  }
}

/// Facts of the spool for `.uploadfs/summary.json`.
public struct SpoolFacts: Sendable, Hashable {
  /// Captures whose bytes lie in the spool.
  public var captures: Int
  /// Bytes that can still be written.
  public var freeBytes: UInt64
  /// Bytes that are kept free (spec H6).
  public var reserveBytes: UInt64

  /// Facts of a spool.
  public init(captures: Int, freeBytes: UInt64, reserveBytes: UInt64) {
    self.captures = captures
    self.freeBytes = freeBytes
    self.reserveBytes = reserveBytes
  }
}

/// The bytes of `.uploadfs/summary.json` (docs/summary.schema.json).
public enum SummaryDocument {
  static let schemaName = "uploadfs-summary-1"

  /// Renders the mount's summary.
  public static func render(_ summary: MountSummary, process: ProcessFacts, spool: SpoolFacts) -> [UInt8] {
    JSONWriter.document(paddedTo: StatusDocument.unitBytes) { json in
      json.field("schema", schemaName)
      json.field("process") {
        $0.field("pid", process.pid)
        $0.field("version", process.version)
        $0.field("started", millisecondsSince1970: process.startedAtMilliseconds)
      }
      json.field("destination", summary.destination)
      json.field("files") {
        for state in FileStatus.State.allCases { $0.field(state.key, summary.filesByState[state] ?? 0) }
      }
      json.field("bytes") {
        $0.field("pending", summary.pendingBytes)
        $0.field("acknowledged", summary.acknowledgedBytes)
      }
      json.field("rate_bytes_per_second", JSONWriter.rate(summary.bytesPerSecond), decimals: 0)
      json.field("requests_in_flight", summary.requestsInFlight)
      json.field("change_sequence", summary.changeSequence)
      json.field("oldest_pending_sequence", summary.oldestPendingSequence)
      json.field("scanned", summary.isScanned)
      json.field("draining", summary.isDraining)
      json.field("last_error", failure: summary.lastFailure)
      json.field("next_attempt_at", millisecondsSince1970: summary.nextAttemptMilliseconds)
      json.field("failed_paths", strings: summary.failedPaths.map(\.displayText))
      if !summary.failedPaths.allSatisfy(\.isUTF8) {
        json.field("failed_paths_bytes", strings: summary.failedPaths.map { Hex.encode($0.bytes) })
      }
      json.field("spool") {
        $0.field("captures", spool.captures)
        $0.field("free_bytes", spool.freeBytes)
        $0.field("reserve_bytes", spool.reserveBytes)
      }
    }
  }
}

extension FileStatus.State {
  /// The raw value as a key; a `StaticString`, so that no key needs escaping.
  fileprivate var key: StaticString {
    switch self {
    case .writing: "writing"
    case .held: "held"
    case .queued: "queued"
    case .uploading: "uploading"
    case .waiting: "waiting"
    case .complete: "complete"
    case .failed: "failed"
    case .cancelled: "cancelled"
    }
  }
}
