import FileModel
import Integrity
import Telemetry
import UploadEngine

/// The bytes of `.uploadfs/summary.json` (docs/summary.schema.json).
enum SummaryDocument {
  static let schemaName = "uploadfs-summary-1"

  /// Renders the mount's summary.
  static func render(_ facts: MountSnapshot) -> [UInt8] {
    let summary = facts.summary
    return JSONWriter.document(paddedTo: StatusDocument.unitBytes) { json in
      json.field("schema", schemaName)
      json.field("process") {
        $0.field("pid", facts.process.pid)
        $0.field("pid_namespace", facts.process.pidNamespace)
        $0.field("version", facts.process.version)
        $0.field("started", millisecondsSince1970: facts.process.startedAtMilliseconds)
      }
      json.field("destination", summary.destination)
      json.field("files") {
        for state in FileStatus.State.allCases { $0.field(state.key, summary.filesByState[state] ?? 0) }
      }
      json.field("bytes") {
        $0.field("pending", summary.pendingBytes)
        $0.field("sent", summary.sentBytes)
        $0.field("acknowledged", summary.acknowledgedBytes)
      }
      json.field("compressed") {
        $0.field("chunks", facts.pipeline.chunksCompressed)
        compressed(&$0, "lz4", facts.pipeline.bytesOfLZ4)
        compressed(&$0, "zstd", facts.pipeline.bytesOfZstandard)
      }
      json.field("rate_bytes_per_second", JSONWriter.rate(summary.bytesPerSecond), decimals: 0)
      json.field("requests_in_flight", summary.requestsInFlight)
      json.field("change_sequence", summary.changeSequence)
      json.field("oldest_pending_sequence", summary.oldestPendingSequence)
      json.field("scanned", summary.isScanned || summary.isScanGivenUp)
      json.field("draining", summary.isDraining)
      // Whatever else is wrong is less.
      json.field("last_error", failure: facts.spool.trouble ?? summary.shownFailure)
      json.field("next_attempt_at", millisecondsSince1970: summary.shownAttemptMilliseconds)
      json.field("undelivered_files", summary.undeliveredCount)
      json.field("unproven_files", summary.unprovenCount)
      json.field("files_beyond_memory", summary.unloadedFiles)
      json.field("failed_paths", strings: summary.failedPaths.map(\.displayText))
      if !summary.failedPaths.allSatisfy(\.isUTF8) {
        json.field("failed_paths_bytes", strings: summary.failedPaths.map { Hex.encode($0.bytes) })
      }
      if !summary.destinations.isEmpty {
        json.field("destinations", objects: summary.destinations) { destination(&$0, $1) }
      }
      json.field("telemetry", facts.telemetry)
      json.field("spool") {
        $0.field("path", facts.spool.path)
        $0.field("captures", facts.spool.captures)
        $0.field("free_bytes", facts.spool.freeBytes)
        $0.field("reserve_bytes", facts.spool.reserveBytes)
        if let renewal = facts.spool.renewal {
          $0.field("renewed") {
            $0.field("at", millisecondsSince1970: renewal.atMilliseconds)
            $0.field("told_by", renewal.server)
            $0.field("start", renewal.count)
            $0.field("known_start", renewal.knownCount)
            $0.field("message", renewal.message)
          }
        }
      }
      json.field("passthrough") {
        $0.field("mode", facts.passthrough.mode.rawValue)
        $0.field("handles", facts.passthrough.handles)
      }
      json.field("transparency", objects: facts.transparency) {
        $0.field("destination", $1.destination)
        $0.field("policy", $1.policy)
        $0.field("state", $1.state)
      }
      json.field("http_versions", objects: facts.httpVersions) { httpVersions(&$0, $1) }
      json.field("expert_settings", strings: facts.expertSettings)
    }
  }

  private static func httpVersions(_ json: inout JSONWriter, _ status: HTTPVersionStatus) {
    json.field("destination", status.destination)
    json.field("policy", status.policy)
    json.field("state", status.state)
    json.field("servers", objects: status.servers) {
      $0.field("server", $1.server)
      $0.field("finding", $1.finding)
      $0.field("http1_bytes_per_second", $1.http1BytesPerSecond, decimals: 0)
      $0.field("http2_bytes_per_second", $1.http2BytesPerSecond, decimals: 0)
    }
  }

  private static func compressed(_ json: inout JSONWriter, _ encoding: StaticString, _ bytes: CompressedBytes) {
    json.field(encoding) {
      $0.field("plain_bytes", bytes.plain)
      $0.field("sent_bytes", bytes.sent)
    }
  }

  /// One of several, in the words of the whole.
  private static func destination(_ json: inout JSONWriter, _ destination: DestinationSummary) {
    let summary = destination.summary
    json.field("name", destination.name.text)
    json.field("url", summary.destination)
    json.field("files") {
      for state in FileStatus.State.allCases { $0.field(state.key, summary.filesByState[state] ?? 0) }
    }
    json.field("bytes") {
      $0.field("pending", summary.pendingBytes)
      $0.field("sent", summary.sentBytes)
      $0.field("acknowledged", summary.acknowledgedBytes)
    }
    json.field("change_sequence", summary.changeSequence)
    json.field("oldest_pending_sequence", summary.oldestPendingSequence)
    json.field("last_error", failure: summary.shownFailure)
    json.field("next_attempt_at", millisecondsSince1970: summary.shownAttemptMilliseconds)
  }
}

extension JSONWriter {
  /// For people and graphs; null where the machine has none.
  fileprivate mutating func field(_ key: StaticString, _ telemetry: TelemetryReading) {
    field(key) { json in
      json.list("temperatures", telemetry.temperatures) {
        $0.field("sensor", $1.sensor)
        $0.field("type", $1.type)
        $0.field("celsius", $1.celsius, decimals: 1)
      }
      json.list("batteries", telemetry.batteries) {
        $0.field("name", $1.name)
        $0.field("percent", $1.percent.map { UInt64(clamping: $0) })
        $0.field("state", $1.state.rawValue)
      }
      json.field("on_mains", telemetry.isOnMains)
      json.field("power_profile", telemetry.powerProfile)
      json.field("low_power", telemetry.isLowPower)
    }
  }

  private mutating func list<Element>(
    _ key: StaticString, _ elements: [Element], _ content: (inout JSONWriter, Element) -> Void
  ) {
    if elements.isEmpty { nullField(key) } else { field(key, objects: elements, content) }
  }
}

extension FileStatus.State {
  /// The raw value as a key; a `StaticString`, so that no key needs escaping.
  var key: StaticString {
    switch self {
    case .writing: "writing"
    case .held: "held"
    case .ignored: "ignored"
    case .interrupted: "interrupted"
    case .queued: "queued"
    case .uploading: "uploading"
    case .waiting: "waiting"
    case .complete: "complete"
    case .failed: "failed"
    case .cancelled: "cancelled"
    }
  }
}
