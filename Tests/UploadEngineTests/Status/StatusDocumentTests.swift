import FileModel
import Foundation
import Integrity
import LogText
import Promises
import Quantities
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct StatusDocumentTests {
  private func status(_ state: FileStatus.State = .uploading) -> FileStatus {
    FileStatus(
      id: FileID(high: 1, low: 0xab), path: RelativePath("day 1/scan42.mov"), publishedName: "scan42.mov", state: state)
  }

  private func complete() -> FileStatus {
    var status = status(.complete)
    status.otherPaths = [RelativePath("link.mov")]
    status.revision = 3
    status.writtenBytes = 1 << 40
    status.acknowledgedBytes = 1 << 40
    status.sentBytes = 1 << 40
    status.savedBytes = 3 << 38
    status.encoding = .zstd(RecordFilter(stride: 12, difference: 4) ?? .none)
    status.totalBytes = 1 << 40
    status.chunks.total = 4
    status.chunks.done = 4
    status.chunks.reused = 1
    status.sessionID = "s"
    status.merkleRoot = String(repeating: "0a", count: 32)
    status.chainTip = String(repeating: "ff", count: 32)
    status.protocolName = "HTTP/2"
    status.tier = "fast"
    status.isPrewarmed = true
    status.prewarm = FileStatus.Prewarm(
      stages: ConnectionStages(
        names: .zero, connect: .milliseconds(100), tls: .microseconds(101_500), answer: .seconds(1)),
      session: .milliseconds(102), alternatives: [AlternativeService("h3", port: 443).text])
    status.openedAtMilliseconds = 0
    status.closedAtMilliseconds = 1_700_000_000_123
    status.startedAtMilliseconds = -1
    status.completedAtMilliseconds = 1_700_000_000_999
    status.receipt = Receipt(
      id: "r-1", name: "scan42.mov", sizeBytes: 1 << 40, merkleRoot: String(repeating: "0a", count: 32),
      chainTip: String(repeating: "ff", count: 32), publishedAtMilliseconds: 1_700_000_000_500,
      durationMilliseconds: 2_097_152_500)
    status.isLocal = false
    return status
  }

  /// Regression: an upload's address is all that one needs to read it, or to take it away.
  @Test(.promises("SE6")) func anAddressIsShownAsADigest() {
    let path = "/files/24e533e02ec3bc40c387f1a0e460e216"
    let digest = ShownAddress.of(path)
    #expect(digest.hasPrefix("sha256:") && digest.count == 71)
    #expect(
      ShownAddress.of("https://upload.example:8443" + path) == digest
        && ShownAddress.of("http://other" + path) == digest)
    #expect(ShownAddress.of("one 4096/99 " + path) != digest && !ShownAddress.of("one 4096 " + path).contains("files"))
    for id in ["r-1", "rows 0a0b", "24e533e0", ""] { #expect(ShownAddress.of(id) == id) }
    var status = complete()
    status.sessionID = "one 4096 " + path
    status.receipt?.id = "https://upload.example" + path
    let text = String(decoding: StatusDocument.render(status), as: UTF8.self)
    #expect(!text.contains("24e533e02ec3") && text.contains(digest))
  }

  private func failed() -> FileStatus {
    var status = status(.waiting)
    status.reason = "a \"reason\""
    status.attempts = 3
    status.lastFailure = .init(code: "unknown-host", message: "no\naddress\tfor \\host\u{1}\u{7f}", atMilliseconds: 1)
    status.nextAttemptMilliseconds = 1_700_000_000_000
    status.missing = MissingBytes((0..<40).map { 8 * $0..<8 * $0 + 3 })
    status.bytesPerSecond = 1_234_567.89
    status.etaSeconds = 12.34
    return status
  }

  private func awkward() -> FileStatus {
    var status = status(.held)
    status.path = RelativePath(bytes: [0x61, 0xff, 0x0a, 0x22])
    status.otherPaths = [RelativePath("ok"), RelativePath(bytes: [0xc3, 0x28])]
    status.publishedName = "日本語 \u{2028} 🎥"
    status.bytesPerSecond = .infinity
    status.etaSeconds = .nan
    status.totalBytes = .max
    status.acknowledgedBytes = .max - 1
    status.writtenBytes = .max
    return status
  }

  private var samples: [FileStatus] {
    FileStatus.State.allCases.map { status($0) } + [complete(), failed(), awkward()]
  }

  @Test func everyStateFollowsTheSchema_whichNamesAllMembers() throws {
    let schema = try JSONSchema(named: "status.schema.json", isClosed: true)
    for status in samples {
      let document = try JSONValue.parse(StatusDocument.render(status))
      #expect(schema.findings(in: document) == [])
    }
  }

  /// Regression: readers could not know which members a later version may add.
  @Test(.promises("S31d")) func theSchemaTakesWhatLaterVersionsAdd_andMissesNothing() throws {
    let schema = try JSONSchema(named: "status.schema.json")
    guard case .object(var members) = try JSONValue.parse(StatusDocument.render(complete())) else {
      Issue.record("no object")
      return
    }
    for key in members.keys {
      var fewer = members
      fewer[key] = nil
      #expect(schema.findings(in: .object(fewer)).count == 1, "without \(key)")
    }
    members["more"] = .null
    #expect(schema.findings(in: .object(members)) == [])
    #expect(try JSONSchema(named: "status.schema.json", isClosed: true).findings(in: .object(members)).count == 1)
    members["more"] = nil
    members["state"] = .string("done")
    #expect(!schema.findings(in: .object(members)).isEmpty)
  }

  @Test func documentsAreWholeKibibytesEndingInANewline() throws {
    for status in samples {
      let bytes = StatusDocument.render(status)
      #expect(bytes.count % 1024 == 0)
      #expect(bytes.last == UInt8(ascii: "\n"))
      #expect(String(validating: bytes, as: UTF8.self) != nil)
    }
    // Whatever the length before the padding.
    var sizes: Set<Int> = []
    for length in 0...1024 {
      var status = status()
      status.publishedName = String(repeating: "n", count: length)
      let bytes = StatusDocument.render(status)
      sizes.insert(bytes.count)
      #expect(bytes.count % 1024 == 0 && bytes.last == UInt8(ascii: "\n"), "length \(length)")
    }
    #expect(sizes.count == 2)
  }

  @Test func theDocumentOfACompleteFileSaysEverything() throws {
    let text = String(decoding: StatusDocument.render(complete()), as: UTF8.self)
    let expected = """
      {
        "schema": "uploadfs-status-1",
        "version": 6,
        "path": "day 1/scan42.mov",
        "other_paths": ["link.mov"],
        "published_name": "scan42.mov",
        "file_id": "000000000000000100000000000000ab",
        "state": "complete",
        "reason": null,
        "revision": 3,
        "bytes": {"written": 1099511627776, "sent": 274877906944, "acknowledged": 1099511627776, "total": 1099511627776},
        "percent": 100.00,
        "rate_bytes_per_second": 0,
        "eta_seconds": null,
        "at_stake_bytes": 0,
        "upload": {"seconds": 2097152.500, "bytes_per_second": 524288},
        "chunks": {"total": 4, "done": 4, "in_flight": 0, "retried": 0, "reused": 1, "size": 4194304},
        "compression": {"encoding": "zstd;stride=12;difference=4", "plain_bytes": 1099511627776, "sent_bytes": 274877906944, "gain": 0.7500},
        "attempts": 0,
        "last_error": null,
        "next_attempt_at": null,
        "resume": {"session": "s", "checkpoint_chunks": 0},
        "integrity": {"merkle_root": "\(String(repeating: "0a", count: 32))", "chain_tip": "\(String(repeating: "ff", count: 32))"},
        "connection": {"protocol": "HTTP/2", "streams": 0, "tier": "fast", "prewarmed": true, "prewarm": {"names": 0.000000, "connect": 0.100000, "tls": 0.101500, "answer": 1.000000, "session": 0.102000, "alternatives": ["h3=\\":443\\""]}},
        "times": {"opened": "1970-01-01T00:00:00.000Z", "closed": "2023-11-14T22:13:20.123Z", "started": "1969-12-31T23:59:59.999Z", "completed": "2023-11-14T22:13:20.999Z"},
        "receipt": {"id": "r-1", "name": "scan42.mov", "size": 1099511627776, "merkle_root": "\(String(repeating: "0a", count: 32))", "chain_tip": "\(String(repeating: "ff", count: 32))", "published_at": "2023-11-14T22:13:20.500Z"},
        "local": false,
        "local_durability": null,
        "missing": null
      }
      """
    #expect(text.trimmingCharacters(in: .whitespacesAndNewlines) == expected)
  }

  @Test func textsSurviveTheirEscapes() throws {
    let document = try JSONValue.parse(StatusDocument.render(failed()))
    #expect(document["reason"]?.text == "a \"reason\"")
    #expect(document["last_error", "message"]?.text == "no\naddress\tfor \\host\u{1}\u{7f}")
    #expect(document["rate_bytes_per_second"] == .number(1_234_568))
    #expect(document["eta_seconds"] == .number(12.3))
    // No control character reaches a terminal as it is.
    #expect(StatusDocument.render(failed()).allSatisfy { $0 == 0x0a || ($0 >= 0x20 && $0 != 0x7f) })
  }

  @Test func everyByteOfANameCanBeRecovered() throws {
    let document = try JSONValue.parse(StatusDocument.render(awkward()))
    #expect(document["path"]?.text == "a\u{fffd}\n\"")
    #expect(document["path_bytes"]?.text == "61ff0a22")
    #expect(document["other_paths_bytes"] == .array([.string("6f6b"), .string("c328")]))
    #expect(document["published_name"]?.text == "日本語 \u{2028} 🎥")
    #expect(document["rate_bytes_per_second"] == .number(0))
    #expect(document["eta_seconds"] == .null)
    // Whole UTF-8 names have no such field.
    let plain = try JSONValue.parse(StatusDocument.render(status()))
    #expect(plain["path_bytes"] == nil && plain["other_paths_bytes"] == nil)
  }

  @Test(
    arguments: [
      (0, 0, .uploading, 0), (0, 0, .complete, 100), (1, 3, .uploading, 33.33), (999_999, 1_000_000, .uploading, 99.99),
      (5, 4, .uploading, 100), (UInt64.max - 1, UInt64.max, .uploading, 99.99),
      (UInt64.max, UInt64.max, .complete, 100),
    ] as [(UInt64, UInt64, FileStatus.State, Double)], [false, true])
  func percentIsRoundedDown(
    row: (acknowledged: UInt64, total: UInt64, state: FileStatus.State, percent: Double), isOnItsWay: Bool
  ) throws {
    let (acknowledged, total, state, percent) = row
    var status = status(state)
    // What has arrived counts, and is not all before it is acknowledged.
    status.acknowledgedBytes = isOnItsWay && acknowledged < total ? 0 : acknowledged
    status.sentBytes = acknowledged
    status.totalBytes = total
    #expect(try JSONValue.parse(StatusDocument.render(status))["percent"] == .number(percent))
  }

  /// Regression: U+009B and marks of direction stood in the document as they are.
  @Test(.promises("SE13")) func textOfOthersMovesNoCursor_andIsTheSame() throws {
    let text = "a\u{1b}\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{feff}\"\\é\u{1f600}\n\t.mov"
    var status = status(.failed)
    status.lastFailure = FileStatus.Failure(code: "x", message: text, atMilliseconds: 0)
    status.otherPaths = [RelativePath(text)]
    let document = StatusDocument.render(status)
    let hidden = String(decoding: document, as: UTF8.self).unicodeScalars.filter {
      $0 != "\n" && VisibleText.isHidden($0)
    }
    #expect(hidden.isEmpty)
    guard case .object(let error) = try JSONValue.parse(document)["last_error"] else {
      Issue.record("there is no last_error")
      return
    }
    #expect(error["message"] == .string(text))
  }

  @Test func largeNumbersArePlainDigits() throws {
    let text = String(decoding: StatusDocument.render(awkward()), as: UTF8.self)
    #expect(text.contains("\"total\": 18446744073709551615}"))
    #expect(JSONWriter.decimal(1e15, 0) == "1000000000000000")
    #expect(JSONWriter.decimal(0.05, 1) == "0.1")
    #expect(JSONWriter.decimal(-0.001, 2) == "0.00")
    #expect(JSONWriter.decimal(-1.5, 2) == "-1.50")
    #expect(JSONWriter.decimal(12.006, 3) == "12.006")
    #expect(JSONWriter.decimal(.nan, 1) == nil)
    #expect(JSONWriter.decimal(1e300, 1) == nil)
  }

  /// Writes every sample to the folder that UPLOADFS_STATUS_SAMPLES names, for a check with another validator.
  @Test(.enabled(if: ProcessInfo.processInfo.environment["UPLOADFS_STATUS_SAMPLES"] != nil))
  func samplesForAnotherValidator() throws {
    let folder = URL(fileURLWithPath: try #require(ProcessInfo.processInfo.environment["UPLOADFS_STATUS_SAMPLES"]))
    for (number, status) in samples.enumerated() {
      try Data(StatusDocument.render(status)).write(to: folder.appendingPathComponent("status-\(number).json"))
    }
  }
}

@Suite struct TimestampTests {
  @Test(
    arguments: [
      (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
      (1_772_323_199_999, "2026-02-28T23:59:59.999Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
      (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
      (.max, "9999-12-31T23:59:59.999Z"), (.min, "0000-01-01T00:00:00.000Z"),
    ] as [(Int64, String)])
  func knownInstants(milliseconds: Int64, text: String) {
    #expect(Timestamp.text(millisecondsSince1970: milliseconds) == text)
  }

  @Test func dateOfHTTP_isReadAsItIsWritten() {
    #expect(HTTPDate.text(secondsSince1970: 784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
    #expect(HTTPDate.text(secondsSince1970: -1) == "Wed, 31 Dec 1969 23:59:59 GMT")
    for seconds in stride(from: Int64(-2_208_988_800), through: 4_102_444_800, by: 86_400 * 13 + 3_671) {
      #expect(HTTPDate.seconds(HTTPDate.text(secondsSince1970: seconds)) == seconds)
    }
  }

  @Test func everyDayOfFourCenturiesIsTheCalendarsDay() throws {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = try #require(TimeZone(identifier: "UTC"))
    for day in stride(from: -80_000, through: 80_000, by: 13) {
      let parts = calendar.dateComponents(
        [.year, .month, .day], from: Date(timeIntervalSince1970: Double(day) * 86_400))
      let text = Timestamp.text(millisecondsSince1970: Int64(day) * 86_400_000)
      let date = text.prefix(10).split(separator: "-").compactMap { Int($0) }
      #expect(date == [parts.year, parts.month, parts.day], "day \(day)")
    }
  }
}
