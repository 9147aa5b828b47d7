import FileModel
import Foundation
import Quantities
import Telemetry
import Testing

@testable import MountStatus
@testable import UploadEngine

@Suite struct MountFilesTests {
  private let nothing = MountSnapshot(
    summary: MountSummary(), pipeline: PipelineStatistics(),
    process: DaemonProcess(pid: 12, pidNamespace: nil, version: "0.1.0", startedAtMilliseconds: 1_700_000_000_000),
    spool: SpoolStatus(path: "/spool", captures: 4, freeBytes: 5, reserveBytes: 6),
    passthrough: PassthroughStatus(mode: .read, handles: 2), telemetry: TelemetryReading())

  private var full: MountSnapshot {
    var facts = nothing
    facts.process.pidNamespace = 4_026_531_836
    facts.summary.filesByState = [.complete: 3, .waiting: 1]
    facts.summary.pendingBytes = .max
    facts.summary.bytesPerSecond = 17.6
    facts.summary.requestsInFlight = 12
    facts.summary.retriedChunks = 7
    facts.summary.reusedChunks = 8
    facts.summary.endpoints = [EndpointSummary(url: "https://a", health: 0.5, isInUse: true)]
    facts.summary.changeSequence = 9
    facts.summary.oldestPendingSequence = 4
    facts.summary.isScanned = true
    facts.summary.isDraining = true
    facts.summary.destination = "https://upload.example/a\\b\"c\nd"
    facts.summary.lastFailure = .init(code: "unauthorized", message: "m", atMilliseconds: .max)
    facts.summary.nextAttemptMilliseconds = .min
    facts.summary.failedPaths = [RelativePath("a"), RelativePath(bytes: [0xff])]
    facts.expertSettings = ["prefetch=5"]
    facts.transparency = [TransparencyStatus(destination: "main", policy: "public-only", state: "list-too-old")]
    facts.httpVersions = [
      HTTPVersionStatus(
        destination: "main", policy: "auto", state: "measured",
        servers: [
          .init(server: "https://a", finding: "not-better", http1BytesPerSecond: 1e6, http2BytesPerSecond: 9e5),
          .init(server: "https://b", finding: "unmeasured", http1BytesPerSecond: nil, http2BytesPerSecond: nil),
        ])
    ]
    facts.spool.renewal = SpoolIdentity.Renewal(server: "https://a", count: 4, knownCount: 7, atMilliseconds: 5)
    facts.pipeline.bytesFromMappings = 1 << 40
    facts.pipeline.blocksMapped = 15
    facts.pipeline.chunksCompressed = 2
    facts.pipeline.bytesOfZstandard.plain = 1000
    facts.pipeline.bytesOfZstandard.sent = 450
    facts.pipeline.compressionSeconds = 0.5
    facts.telemetry.temperatures = [
      .init(sensor: "thermal_zone0", type: "acpitz", celsius: 41.25),
      .init(sensor: "hwmon1/temp1", type: "nvme Composite", celsius: -3),
    ]
    facts.telemetry.batteries = [
      .init(name: "BAT0", percent: 82, state: .discharging), .init(name: "BAT1", percent: nil, state: .unknown),
    ]
    facts.telemetry.isOnMains = false
    facts.telemetry.powerProfile = "low-power"
    facts.telemetry.isLowPower = true
    return facts
  }

  @Test func theSummaryFollowsItsSchema() throws {
    let schema = try JSONSchema(named: "summary.schema.json")
    for facts in [nothing, full] {
      let bytes = SummaryDocument.render(facts)
      #expect(bytes.count % 1024 == 0)
      #expect(schema.findings(in: try JSONValue.parse(bytes)) == [])
    }
    let document = try JSONValue.parse(SummaryDocument.render(full))
    #expect(document["files", "complete"] == .number(3) && document["files", "held"] == .number(0))
    #expect(document["oldest_pending_sequence"] == .number(4))
    #expect(document["process", "started"]?.text == "2023-11-14T22:13:20.000Z")
    #expect(document["spool", "reserve_bytes"] == .number(6))
    #expect(document["spool", "renewed"]?["known_start"] == .number(7))
    guard case .array(let transparency)? = document["transparency"] else {
      Issue.record("no transparency")
      return
    }
    #expect(transparency.map { $0["state"] } == [.string("list-too-old")])
    guard case .array(let versions)? = document["http_versions"], case .array(let servers)? = versions.first?["servers"]
    else {
      Issue.record("no versions of HTTP")
      return
    }
    #expect(servers.map { $0["http2_bytes_per_second"] } == [.number(900_000), .null])
    #expect(document["passthrough", "mode"] == .string("read") && document["passthrough", "handles"] == .number(2))
    #expect(document["compressed", "zstd"]?["plain_bytes"] == .number(1000))
    #expect(document["compressed", "zstd"]?["sent_bytes"] == .number(450))
    #expect(document["compressed", "lz4"]?["sent_bytes"] == .number(0))
    #expect(document["last_error", "at"]?.text == "9999-12-31T23:59:59.999Z")
    #expect(document["next_attempt_at"]?.text == "0000-01-01T00:00:00.000Z")
    #expect(document["failed_paths_bytes"] == .array([.string("61"), .string("ff")]))
  }

  @Test func telemetryIsNullWhereTheMachineHasNone() throws {
    let bare = try JSONValue.parse(SummaryDocument.render(nothing))
    guard case .object(let members)? = bare["telemetry"] else {
      Issue.record("no telemetry")
      return
    }
    #expect(members.count == 5 && members.values.allSatisfy { $0 == .null })
    let laptop = try JSONValue.parse(SummaryDocument.render(full))
    #expect(
      laptop["telemetry", "temperatures"]
        == .array([
          .object(["sensor": .string("thermal_zone0"), "type": .string("acpitz"), "celsius": .number(41.3)]),
          .object(["sensor": .string("hwmon1/temp1"), "type": .string("nvme Composite"), "celsius": .number(-3)]),
        ]))
    #expect(
      laptop["telemetry", "batteries"]
        == .array([
          .object(["name": .string("BAT0"), "percent": .number(82), "state": .string("discharging")]),
          .object(["name": .string("BAT1"), "percent": .null, "state": .string("unknown")]),
        ]))
    #expect(laptop["telemetry", "on_mains"] == .bool(false) && laptop["telemetry", "low_power"] == .bool(true))
  }

  @Test func metricsSayWhatTheSummarySays() throws {
    let lines = String(decoding: MetricsDocument.render(full), as: UTF8.self).split(separator: "\n").map(String.init)
    for line in [
      "# HELP uploadfs_files Files by state.", "# TYPE uploadfs_files gauge", "uploadfs_files{state=\"complete\"} 3",
      "uploadfs_files{state=\"held\"} 0", "uploadfs_upload_rate_bytes_per_second 17.6",
      "uploadfs_chunk_requests_in_flight 12", "uploadfs_chunks_retried_total 7", "uploadfs_chunks_reused_total 8",
      "# TYPE uploadfs_chunks_reused_total counter", "uploadfs_destination_available 0",
      "uploadfs_endpoint_health{endpoint=\"https://a\"} 0.5", "uploadfs_endpoint_in_use{endpoint=\"https://a\"} 1",
      "uploadfs_start_time_seconds 1700000000", "uploadfs_spool_free_bytes 5",
      "uploadfs_info{version=\"0.1.0\",destination=\"https://upload.example/a\\\\b\\\"c\\nd\"} 1",
      "uploadfs_temperature_celsius{sensor=\"thermal_zone0\",type=\"acpitz\"} 41.25",
      "uploadfs_battery_charge_ratio{battery=\"BAT0\"} 0.82", "uploadfs_battery_discharging{battery=\"BAT1\"} 0",
      "uploadfs_capture_read_bytes_total{by=\"mapping\"} 1099511627776",
      "uploadfs_capture_read_bytes_total{by=\"read\"} 0", "uploadfs_capture_read_bytes_total{by=\"hole\"} 0",
      "uploadfs_blocks_mapped_total 15", "uploadfs_mains_online 0", "uploadfs_low_power_mode 1",
    ] {
      #expect(lines.contains(line), "\(line)")
    }
    #expect(!lines.contains { $0.hasPrefix("uploadfs_battery_charge_ratio{battery=\"BAT1\"}") })
  }

  @Test func metricsOfAMachineWithoutSensorsHaveNoEmptyFamilies() throws {
    let text = String(decoding: MetricsDocument.render(nothing), as: UTF8.self)
    for name in ["temperature", "battery", "mains", "low_power"] { #expect(!text.contains(name)) }
    #expect(text.contains("uploadfs_destination_available 1\n"))
  }

  @Test func everyMetricIsDocumented() throws {
    var folder = URL(fileURLWithPath: #filePath)
    for _ in 0..<3 { folder.deleteLastPathComponent() }
    let page = try String(contentsOf: folder.appendingPathComponent("docs/metrics.md"), encoding: .utf8)
    let documented = Set(
      page.split(separator: "`").filter { $0.hasPrefix("uploadfs_") }.map { $0.prefix { $0 != "{" } })
    let lines = String(decoding: MetricsDocument.render(full), as: UTF8.self).split(separator: "\n")
    let written = Set(lines.filter { $0.hasPrefix("# TYPE ") }.map { $0.split(separator: " ")[2] })
    #expect(documented == written)
  }

  @Test func notANumberIsWrittenAsPrometheusReadsIt() {
    var text = PrometheusText()
    text.family(
      "a", .gauge, "b", [.nan, .infinity, -.infinity, 1e300, 0.1, -0.0, 1e15].map { PrometheusText.Sample([], $0) })
    #expect(
      String(decoding: text.bytes, as: UTF8.self)
        == "# HELP a b\n# TYPE a gauge\na NaN\na +Inf\na -Inf\na 1e+300\na 0.1\na 0\na 1000000000000000\n")
  }

  /// Writes the summary to the folder that UPLOADFS_STATUS_SAMPLES names, for a check with another validator.
  @Test(.enabled(if: ProcessInfo.processInfo.environment["UPLOADFS_STATUS_SAMPLES"] != nil))
  func samplesForAnotherValidator() throws {
    let folder = URL(fileURLWithPath: try #require(ProcessInfo.processInfo.environment["UPLOADFS_STATUS_SAMPLES"]))
    for (number, facts) in [nothing, full].enumerated() {
      try Data(SummaryDocument.render(facts)).write(to: folder.appendingPathComponent("summary-\(number).json"))
    }
  }
}
