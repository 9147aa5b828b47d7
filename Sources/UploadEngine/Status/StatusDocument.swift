import FileModel
import Integrity
import TransferModel

/// The bytes of `status/<path>.json` (docs/status.schema.json).
public enum StatusDocument {
  /// Documents have a multiple of this size, so that what stat said and what read returns agree while numbers in them
  /// gain or lose a digit.
  public static let unitBytes = 1024
  static let schemaName = "uploadfs-status-1"
  /// Rises with each member that later versions add; readers ignore what they do not know.
  static let version = 6

  /// Renders a file's status.
  public static func render(_ status: FileStatus) -> [UInt8] {
    JSONWriter.document(paddedTo: unitBytes) { json in
      json.field("schema", schemaName)
      json.field("version", version)
      names(status, &json)
      json.field("file_id", status.id.description)
      json.field("state", status.state.rawValue)
      json.field("reason", status.reason)
      json.field("revision", status.revision)
      progress(status, &json)
      json.field("attempts", status.attempts)
      json.field("last_error", failure: status.lastFailure)
      json.field("next_attempt_at", millisecondsSince1970: status.nextAttemptMilliseconds)
      json.field("resume") {
        $0.field("session", status.sessionID.map(ShownAddress.of))
        $0.field("checkpoint_chunks", status.checkpointChunks)
      }
      json.field("integrity") {
        $0.field("merkle_root", status.merkleRoot)
        $0.field("chain_tip", status.chainTip)
      }
      json.field("connection") {
        $0.field("protocol", status.protocolName.isEmpty ? nil : status.protocolName)
        $0.field("streams", status.streams)
        $0.field("tier", status.tier)
        $0.field("prewarmed", status.isPrewarmed)
        $0.field("prewarm", prewarm: status.prewarm)
      }
      json.field("times") {
        $0.field("opened", millisecondsSince1970: status.openedAtMilliseconds)
        $0.field("closed", millisecondsSince1970: status.closedAtMilliseconds)
        $0.field("started", millisecondsSince1970: status.startedAtMilliseconds)
        $0.field("completed", millisecondsSince1970: status.completedAtMilliseconds)
      }
      json.field("receipt", receipt: status.receipt)
      json.field("local", status.isLocal)
      json.field("local_durability", status.isLocal ? (status.isOnDisk ? "on-disk" : "written") : nil)
      json.field("missing", missing: status.missing)
      if !status.destinations.isEmpty {
        json.field("destinations", objects: status.destinations) { destination(&$0, $1) }
      }
    }
  }

  /// What differs from destination to destination.
  private static func destination(_ json: inout JSONWriter, _ destination: DestinationStatus) {
    let status = destination.status
    json.field("name", destination.name.text)
    json.field("url", destination.url)
    json.field("state", status.state.rawValue)
    json.field("reason", status.reason)
    json.field("published_name", status.publishedName)
    progress(status, &json)
    json.field("attempts", status.attempts)
    json.field("last_error", failure: status.lastFailure)
    json.field("next_attempt_at", millisecondsSince1970: status.nextAttemptMilliseconds)
    json.field("completed", millisecondsSince1970: status.completedAtMilliseconds)
    json.field("receipt", receipt: status.receipt)
  }

  private static func names(_ status: FileStatus, _ json: inout JSONWriter) {
    json.field("path", status.path.displayText)
    if !status.path.isUTF8 { json.field("path_bytes", Hex.encode(status.path.bytes)) }
    json.field("other_paths", strings: status.otherPaths.map(\.displayText))
    if !status.otherPaths.allSatisfy(\.isUTF8) {
      json.field("other_paths_bytes", strings: status.otherPaths.map { Hex.encode($0.bytes) })
    }
    json.field("published_name", status.publishedName)
  }

  private static func progress(_ status: FileStatus, _ json: inout JSONWriter) {
    json.field("bytes") {
      $0.field("written", status.writtenBytes)
      $0.field("sent", status.bodyBytesSent)
      $0.field("acknowledged", status.acknowledgedBytes)
      $0.field("total", status.totalBytes)
    }
    json.field("percent", percent(of: status), decimals: 2)
    json.field("rate_bytes_per_second", JSONWriter.rate(status.bytesPerSecond), decimals: 0)
    json.field("eta_seconds", status.etaSeconds.map { max($0, 0) }, decimals: 1)
    json.field("at_stake_bytes", status.atStakeBytes)
    json.field("upload", upload: status.receipt)
    json.field("chunks") {
      $0.field("total", status.chunks.total)
      $0.field("done", status.chunks.done)
      $0.field("in_flight", status.chunks.inFlight)
      $0.field("retried", status.chunks.retried)
      $0.field("reused", status.chunks.reused)
      $0.field("size", status.chunkBytes)
    }
    json.field("compression", of: status)
  }

  /// Rounded down, so that 100 is said of nothing that still has a byte to go.
  static func percent(of status: FileStatus) -> Double {
    guard status.totalBytes > 0 else { return status.state == .complete ? 100 : 0 }
    guard status.acknowledgedBytes < status.totalBytes else { return 100 }
    // What has arrived may still be refused.
    guard status.sentBytes < status.totalBytes else { return 99.99 }
    let product = max(status.sentBytes, status.acknowledgedBytes).multipliedFullWidth(by: 10_000)
    return Double(status.totalBytes.dividingFullWidth(product).quotient) / 100
  }
}

extension JSONWriter {
  package mutating func field(_ key: StaticString, failure: FileStatus.Failure?) {
    guard let failure else { return nullField(key) }
    field(key) {
      $0.field("code", failure.code)
      $0.field("message", failure.message)
      $0.field("at", millisecondsSince1970: failure.atMilliseconds)
    }
  }

  /// How it has travelled, where any of it was compressed.
  mutating func field(_ key: StaticString, of status: FileStatus) {
    guard let encoding = status.encoding, status.sentBytes > 0 else { return nullField(key) }
    field(key) {
      $0.field("encoding", encoding.text)
      $0.field("plain_bytes", status.sentBytes)
      $0.field("sent_bytes", status.bodyBytesSent)
      $0.field("gain", Double(status.sentBytes - status.bodyBytesSent) / Double(status.sentBytes), decimals: 4)
    }
  }

  /// How long the upload took, where that is known.
  mutating func field(_ key: StaticString, upload receipt: Receipt?) {
    guard let receipt, let milliseconds = receipt.durationMilliseconds else { return nullField(key) }
    field(key) {
      $0.field("seconds", Double(milliseconds) / 1000, decimals: 3)
      $0.field("bytes_per_second", receipt.meanBytesPerSecond.map(Self.rate), decimals: 0)
    }
  }

  /// How the way was prepared, and how long that took.
  mutating func field(_ key: StaticString, prewarm: FileStatus.Prewarm?) {
    guard let prewarm else { return nullField(key) }
    field(key) {
      $0.field("names", seconds: prewarm.stages?.names)
      $0.field("connect", seconds: prewarm.stages?.connect)
      $0.field("tls", seconds: prewarm.stages?.tls)
      $0.field("answer", seconds: prewarm.stages?.answer)
      $0.field("session", seconds: prewarm.session)
      $0.field("alternatives", strings: prewarm.alternatives)
    }
  }

  private mutating func field(_ key: StaticString, seconds duration: Duration?) {
    field(key, duration.map { $0 / .seconds(1) }, decimals: 6)
  }

  mutating func field(_ key: StaticString, missing: MissingBytes?) {
    guard let missing else { return nullField(key) }
    field(key) {
      $0.field("ranges", objects: missing.ranges) { json, range in
        json.field("offset", range.lowerBound)
        json.field("length", UInt64(range.count))
      }
      $0.field("more", missing.furtherRanges)
    }
  }

  mutating func field(_ key: StaticString, receipt: Receipt?) {
    guard let receipt else { return nullField(key) }
    field(key) {
      $0.field("id", ShownAddress.of(receipt.id))
      if let id = receipt.fileID { $0.field("file_id", id.description) }
      $0.field("name", receipt.name)
      if let other = receipt.publishedAs { $0.field("published_as", other) }
      $0.field("size", receipt.sizeBytes)
      $0.field("merkle_root", receipt.merkleRoot)
      $0.field("chain_tip", receipt.chainTip)
      $0.field("published_at", millisecondsSince1970: receipt.publishedAtMilliseconds)
      if let answer = receipt.answer { $0.field("answer", answer) }
    }
  }

  /// A rate that can be shown: a meter that has just started may divide by nothing.
  package static func rate(_ bytesPerSecond: Double) -> Double {
    bytesPerSecond.isFinite ? min(max(bytesPerSecond, 0), 1e15) : 0
  }
}

extension FileStatus {
  /// What was sent as bodies of requests: of what was compressed, that.
  fileprivate var bodyBytesSent: UInt64 { sentBytes - min(savedBytes, sentBytes) }
}

extension RelativePath {
  /// False when ``displayText`` does not say which bytes the name has.
  package var isUTF8: Bool { String(validating: bytes, as: UTF8.self) != nil }
}
