import TransferModel

extension HTTPRequestLimits {
  /// A body that keeps above the stall limit is given the time that it needs, twice; the stall check ends the others.
  static func forBody(of byteCount: Int) -> HTTPRequestLimits {
    let seconds = 2 * UInt64(byteCount) / UInt64(UploadConstants.stallBytesPerSecond)
    let total = max(UploadConstants.chunkTimeoutBase, .seconds(Int64(clamping: seconds)))
    return HTTPRequestLimits(
      total: min(total, UploadConstants.resourceTimeout), stall: UploadConstants.stallDetection)
  }
}
