import Foundation
import Testing
import TransferModel

/// The constants are those of docs/design/constants.md, and each has its place there.
@Suite struct UploadConstantsTests {
  private static let units: [String: Double] = [
    "": 1, "ms": 0.001, "s": 1, "KiB": 1024, "MiB": 1_048_576, "GiB": 1_073_741_824, "MB": 1e6, "GB": 1e9,
  ]

  @Test func constants_areThoseOfTheDocument() throws {
    var documented: [String: Double] = [:]
    for row in try text("docs/design/constants.md").matches(of: /\n\| `(\w+)` \| ([0-9.]+) ?(\w*) \|/) {
      let number = try #require(Double(row.2))
      documented[String(row.1)] = number * (try #require(Self.units[String(row.3)], "\(row.0)"))
    }
    let source = try text("Sources/TransferModel/UploadConstants.swift")
    let declared: [String] = source.matches(of: /static let (\w+)/).map { String($0.1) }.sorted()
    #expect(declared == documented.keys.sorted())
    #expect(declared == Self.amounts.keys.sorted())
    for (name, amount) in Self.amounts {
      #expect(abs(documented[name, default: -1] - amount) <= amount * 1e-9, "\(name)")
    }
  }

  /// In bytes, seconds, or none.
  private static let amounts: [String: Double] = {
    var amounts: [String: Double] = [:]
    amounts["maxParallelChunkUploads"] = Double(UploadConstants.maxParallelChunkUploads)
    amounts["parallelRampUpDelay"] = UploadConstants.parallelRampUpDelay / .seconds(1)
    amounts["parallelismAdjustInterval"] = UploadConstants.parallelismAdjustInterval / .seconds(1)
    amounts["prefetchDepth"] = Double(UploadConstants.prefetchDepth)
    amounts["bufferPoolSize"] = Double(UploadConstants.bufferPoolSize)
    amounts["smallFileBytes"] = Double(UploadConstants.smallFileBytes)
    amounts["bundleFilesWanted"] = Double(UploadConstants.bundleFilesWanted)
    amounts["bundlePatience"] = UploadConstants.bundlePatience / .seconds(1)
    amounts["bundleBytesMax"] = Double(UploadConstants.bundleBytesMax)
    amounts["smallBufferPoolSize"] = Double(UploadConstants.smallBufferPoolSize)
    amounts["chunkBytesMin"] = Double(UploadConstants.chunkBytesMin)
    amounts["chunkBytesDefault"] = Double(UploadConstants.chunkBytesDefault)
    amounts["chunkBytesMax"] = Double(UploadConstants.chunkBytesMax)
    amounts["normalTierMegabitsPerSecond"] = UploadConstants.normalTierMegabitsPerSecond
    amounts["fastTierMegabitsPerSecond"] = UploadConstants.fastTierMegabitsPerSecond
    amounts["ultrafastTierMegabitsPerSecond"] = UploadConstants.ultrafastTierMegabitsPerSecond
    amounts["fewStreamsMegabitsPerSecond"] = UploadConstants.fewStreamsMegabitsPerSecond
    amounts["slowTierChunks"] = Double(UploadConstants.slowTierChunks)
    amounts["normalTierChunks"] = Double(UploadConstants.normalTierChunks)
    amounts["slowTierChunkBytes"] = Double(UploadConstants.slowTierChunkBytes)
    amounts["fastTierChunkBytes"] = Double(UploadConstants.fastTierChunkBytes)
    amounts["hashBlockBytes"] = Double(UploadConstants.hashBlockBytes)
    amounts["mmapWholeFileBytes"] = Double(UploadConstants.mmapWholeFileBytes)
    amounts["mmapWindowBytes"] = Double(UploadConstants.mmapWindowBytes)
    amounts["mmapSlidingFileBytes"] = Double(UploadConstants.mmapSlidingFileBytes)
    amounts["mmapSlidingWindowBytes"] = Double(UploadConstants.mmapSlidingWindowBytes)
    amounts["mmapWillNeedBytes"] = Double(UploadConstants.mmapWillNeedBytes)
    amounts["pageCacheFileBytes"] = Double(UploadConstants.pageCacheFileBytes)
    amounts["compressionSampleBytes"] = Double(UploadConstants.compressionSampleBytes)
    amounts["compressionSampleStride"] = Double(UploadConstants.compressionSampleStride)
    amounts["compressionBenefitThreshold"] = Double(UploadConstants.compressionBenefitThreshold)
    amounts["compressionGainLoss"] = UploadConstants.compressionGainLoss
    amounts["compressionProbeShare"] = UploadConstants.compressionProbeShare
    amounts["compressionCoreShare"] = UploadConstants.compressionCoreShare
    amounts["compressionTimeTolerance"] = UploadConstants.compressionTimeTolerance
    amounts["sharedFrameFileBytes"] = Double(UploadConstants.sharedFrameFileBytes)
    amounts["sharedFrameLevel"] = Double(UploadConstants.sharedFrameLevel)
    amounts["chunkTimeoutBase"] = UploadConstants.chunkTimeoutBase / .seconds(1)
    amounts["chunkTimeoutMin"] = UploadConstants.chunkTimeoutMin / .seconds(1)
    amounts["connectionTimeout"] = UploadConstants.connectionTimeout / .seconds(1)
    amounts["stallDetection"] = UploadConstants.stallDetection / .seconds(1)
    amounts["stallBytesPerSecond"] = Double(UploadConstants.stallBytesPerSecond)
    amounts["requestIdleTimeout"] = UploadConstants.requestIdleTimeout / .seconds(1)
    amounts["resourceTimeout"] = UploadConstants.resourceTimeout / .seconds(1)
    amounts["retryBaseDelay"] = UploadConstants.retryBaseDelay / .seconds(1)
    amounts["retryMaxDelay"] = UploadConstants.retryMaxDelay / .seconds(1)
    amounts["fileRetryMaxDelay"] = UploadConstants.fileRetryMaxDelay / .seconds(1)
    amounts["fileTriesMax"] = Double(UploadConstants.fileTriesMax)
    amounts["chunkMaxRetries"] = Double(UploadConstants.chunkMaxRetries)
    amounts["watchdogSession"] = UploadConstants.watchdogSession / .seconds(1)
    amounts["watchdogGlobal"] = UploadConstants.watchdogGlobal / .seconds(1)
    amounts["pauseMin"] = UploadConstants.pauseMin / .seconds(1)
    amounts["breakerFailures"] = Double(UploadConstants.breakerFailures)
    amounts["breakerOpenDuration"] = UploadConstants.breakerOpenDuration / .seconds(1)
    amounts["breakerSuccesses"] = Double(UploadConstants.breakerSuccesses)
    amounts["minSpeedSamples"] = Double(UploadConstants.minSpeedSamples)
    amounts["resumeCheckpointInterval"] = Double(UploadConstants.resumeCheckpointInterval)
    amounts["resumeCheckpointPause"] = UploadConstants.resumeCheckpointPause / .seconds(1)
    amounts["runChunkBytesMax"] = Double(UploadConstants.runChunkBytesMax)
    amounts["shortChunkFileBytes"] = Double(UploadConstants.shortChunkFileBytes)
    amounts["successionPauseFactor"] = Double(UploadConstants.successionPauseFactor)
    amounts["successionPauseMax"] = UploadConstants.successionPauseMax / .seconds(1)
    amounts["flightBytesLeast"] = Double(UploadConstants.flightBytesLeast)
    amounts["sessionMaxAge"] = UploadConstants.sessionMaxAge / .seconds(1)
    amounts["progressInterval"] = UploadConstants.progressInterval / .seconds(1)
    amounts["fileBytesMax"] = Double(UploadConstants.fileBytesMax)
    amounts["keepAliveInterval"] = UploadConstants.keepAliveInterval / .seconds(1)
    amounts["tlsSessionMaxAge"] = UploadConstants.tlsSessionMaxAge / .seconds(1)
    amounts["diskHeadroomBytes"] = Double(UploadConstants.diskHeadroomBytes)
    amounts["diskMarginBytes"] = Double(UploadConstants.diskMarginBytes)
    amounts["stateRoomBytes"] = Double(UploadConstants.stateRoomBytes)
    amounts["responseBytesMax"] = Double(UploadConstants.responseBytesMax)
    return amounts
  }()

  /// Found from this file's own place in the source tree.
  private func text(_ path: String) throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../" + path)
    return try String(contentsOf: root, encoding: .utf8)
  }
}
