import Quantities
import Telemetry
import UploadEngine

/// The bytes of `.uploadfs/metrics` (docs/metrics.md): the summary's numbers for Prometheus and what reads its format.
///
/// Names and labels are an interface: they are not changed, only added to.
enum MetricsDocument {
  private typealias Sample = PrometheusText.Sample

  /// Renders the mount's metrics.
  static func render(_ facts: MountSnapshot) -> [UInt8] {
    var text = PrometheusText()
    writeProcess(facts, &text)
    writeUploads(facts.summary, &text)
    writePipeline(facts.pipeline, &text)
    writeSpool(facts.spool, &text)
    text.family(
      "uploadfs_passthrough_handles", .gauge, "Open files that the kernel reads and writes past the daemon.",
      facts.passthrough.handles)
    writeTelemetry(facts.telemetry, &text)
    return text.bytes
  }

  private static func writeProcess(_ facts: MountSnapshot, _ text: inout PrometheusText) {
    text.family(
      "uploadfs_info", .gauge, "Always 1; the labels say what runs.",
      [Sample([("version", facts.process.version), ("destination", facts.summary.destination)], 1)])
    text.family(
      "uploadfs_start_time_seconds", .gauge, "When the daemon started, seconds since 1970.",
      Double(facts.process.startedAtMilliseconds) / 1000)
    text.family(
      "uploadfs_scanned", .gauge, "1 once files from before the start are all known.", facts.summary.isScanned)
    text.family(
      "uploadfs_draining", .gauge, "1 once the daemon was asked to stop and delivers what is left.",
      facts.summary.isDraining)
  }

  private static func writeUploads(_ summary: MountSummary, _ text: inout PrometheusText) {
    text.family(
      "uploadfs_files", .gauge, "Files by state.",
      FileStatus.State.allCases.map { Sample([("state", $0.rawValue)], Double(summary.filesByState[$0] ?? 0)) })
    text.family(
      "uploadfs_pending_bytes", .gauge, "Bytes that are not acknowledged yet, over all files that are not complete.",
      summary.pendingBytes)
    text.family(
      "uploadfs_acknowledged_bytes_total", .counter, "Bytes that the destination has acknowledged.",
      summary.acknowledgedBytes)
    text.family(
      "uploadfs_sent_bytes", .gauge, "Bytes that are acknowledged, or that the network took of what is being sent.",
      summary.sentBytes)
    text.family(
      "uploadfs_upload_rate_bytes_per_second", .gauge, "Sent bytes per second over the last ten seconds.",
      JSONWriter.rate(summary.bytesPerSecond))
    text.family(
      "uploadfs_chunk_requests_in_flight", .gauge, "Chunks that are being sent.", summary.requestsInFlight)
    text.family(
      "uploadfs_chunks_retried_total", .counter, "Chunks that were sent again after a failure.",
      summary.retriedChunks)
    text.family(
      "uploadfs_chunks_reused_total", .counter, "Chunks that the destination already held.", summary.reusedChunks)
    text.family(
      "uploadfs_files_outgrown_total", .counter, "Files that outgrew what the destination takes, while being written.",
      summary.outgrownFiles)
    text.family(
      "uploadfs_files_refused_by_disk_total", .counter, "Files that the spool's disk did not take.",
      summary.filesRefusedByDisk)
    text.family(
      "uploadfs_files_changed_in_spool_total", .counter,
      "Files that other programs changed in the spool, or took out of it before they were delivered.",
      summary.filesChangedInSpool)
    text.family(
      "uploadfs_files_unproven", .gauge, "Files that are held because nothing proves that they were finished.",
      summary.unprovenCount)
    text.family(
      "uploadfs_files_beyond_memory", .gauge, "Files that the catalog alone knows because memory holds no more.",
      summary.unloadedFiles)
    text.family(
      "uploadfs_destination_available", .gauge, "0 while nothing can be sent because the destination is not available.",
      summary.lastFailure == nil)
    text.family(
      "uploadfs_endpoint_health", .gauge, "The part of the latest requests over an address that were answered, 0 to 1.",
      summary.endpoints.map { Sample([("endpoint", $0.url)], $0.health) })
    text.family(
      "uploadfs_endpoint_in_use", .gauge, "1 for the address to which requests go.",
      summary.endpoints.map { Sample([("endpoint", $0.url)], $0.isInUse ? 1 : 0) })
  }

  private static func writePipeline(_ pipeline: PipelineStatistics, _ text: inout PrometheusText) {
    text.family(
      "uploadfs_chunks_read_total", .counter, "Chunks that were read and hashed.", pipeline.chunksRead)
    text.family(
      "uploadfs_capture_read_bytes_total", .counter, "Bytes of captures by the way they were read.",
      [
        Sample([("by", "mapping")], Double(pipeline.bytesFromMappings)),
        Sample([("by", "read")], Double(pipeline.bytesFromReads)),
        Sample([("by", "hole")], Double(pipeline.bytesOfHoles)),
      ])
    text.family(
      "uploadfs_chunks_compressed_total", .counter, "Chunks that travel compressed.", pipeline.chunksCompressed)
    text.family(
      "uploadfs_compression_saved_bytes_total", .counter, "Bytes that need not travel because of compression.",
      pipeline.bytesSaved)
    text.family(
      "uploadfs_compression_bytes_total", .counter,
      "Bytes of chunks that travel compressed, by encoding.",
      [("lz4", pipeline.bytesOfLZ4), ("zstd", pipeline.bytesOfZstandard)].flatMap { encoding, bytes in
        [
          Sample([("encoding", encoding), ("when", "plain")], Double(bytes.plain)),
          Sample([("encoding", encoding), ("when", "sent")], Double(bytes.sent)),
        ]
      })
    text.family(
      "uploadfs_compression_seconds_total", .counter, "Time of the reading threads that compression has taken.",
      pipeline.compressionSeconds)
    text.family(
      "uploadfs_blocks_mapped_total", .counter, "Pieces of memory of a chunk's size that were taken from the system.",
      pipeline.blocksMapped)
    text.family(
      "uploadfs_windows_mapped_total", .counter, "Pieces of captures that were mapped.", pipeline.windowsMapped)
    text.family(
      "uploadfs_mapping_faults_total", .counter, "Pages of mappings that were gone when they were read.",
      pipeline.faultsContained)
  }

  private static func writeSpool(_ spool: SpoolStatus, _ text: inout PrometheusText) {
    text.family("uploadfs_spool_captures", .gauge, "Files whose bytes lie in the spool.", spool.captures)
    text.family("uploadfs_spool_free_bytes", .gauge, "Bytes that can still be written.", spool.freeBytes)
    text.family(
      "uploadfs_spool_in_place", .gauge, "0 while the spool's folders are not where they were when the mount began.",
      spool.trouble == nil)
    text.family(
      "uploadfs_spool_renewed", .gauge,
      "1 once a receiver has said that the spool was restored from a backup, or that a copy of it runs elsewhere.",
      spool.renewal != nil)
    text.family("uploadfs_spool_reserve_bytes", .gauge, "Bytes that are kept free.", spool.reserveBytes)
  }

  /// Read for graphs; nothing is decided by it. What the machine does not have is left out.
  private static func writeTelemetry(_ telemetry: TelemetryReading, _ text: inout PrometheusText) {
    text.family(
      "uploadfs_temperature_celsius", .gauge, "Temperature by sensor.",
      telemetry.temperatures.map { Sample([("sensor", $0.sensor), ("type", $0.type)], $0.celsius) })
    text.family(
      "uploadfs_battery_charge_ratio", .gauge, "Charge of a battery, 0 to 1.",
      telemetry.batteries.compactMap { battery in
        battery.percent.map { Sample([("battery", battery.name)], Double($0) / 100) }
      })
    text.family(
      "uploadfs_battery_discharging", .gauge, "1 while the machine lives on the battery.",
      telemetry.batteries.map { Sample([("battery", $0.name)], $0.state == .discharging ? 1 : 0) })
    if let isOnMains = telemetry.isOnMains {
      text.family("uploadfs_mains_online", .gauge, "1 while the mains are connected.", isOnMains)
    }
    if let isLowPower = telemetry.isLowPower {
      text.family("uploadfs_low_power_mode", .gauge, "1 while the machine was told to save power.", isLowPower)
    }
  }
}
