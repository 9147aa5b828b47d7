import TransferModel

/// How the bytes of a file are read (docs/design/reading.md#reading), from its size alone.
struct ReadingPlan: Hashable {
  /// The grid of windows that are mapped; nil for plain reads. A window is longer than its step, so that each block
  /// lies within one window.
  let windowStep: UInt64?
  /// Pages of acknowledged chunks are dropped from the page cache.
  let leavesNoTrace: Bool

  /// A mapping costs two system calls and a page fault for each 64 KiB: below this it cannot pay.
  static let mappedBytesMin: UInt64 = 1 << 20

  init(sizeBytes: UInt64, method: ReadingMethod, savesMemory: Bool) {
    leavesNoTrace = sizeBytes > UploadConstants.pageCacheFileBytes
    if method == .plain || savesMemory || sizeBytes < Self.mappedBytesMin {
      windowStep = nil
    } else if sizeBytes < UploadConstants.mmapWholeFileBytes {
      windowStep = UploadConstants.mmapWholeFileBytes
    } else if sizeBytes <= UploadConstants.mmapSlidingFileBytes {
      windowStep = UInt64(UploadConstants.mmapWindowBytes)
    } else {
      windowStep = UInt64(UploadConstants.mmapSlidingWindowBytes)
    }
  }

  /// The part of the file to map for a block at `offset`; nil for plain reads.
  func window(at offset: UInt64, sizeBytes: UInt64) -> Range<UInt64>? {
    guard let windowStep, offset < sizeBytes else { return nil }
    let start = offset / windowStep * windowStep
    let overlap = UInt64(UploadConstants.hashBlockBytes)
    let (end, isBeyond) = start.addingReportingOverflow(windowStep + overlap)
    return start..<(isBeyond ? sizeBytes : min(end, sizeBytes))
  }
}

/// How the bytes of captures get into memory.
public enum ReadingMethod: Hashable, Sendable {
  /// pread(2). The default: it costs less than a mapping wherever it was measured (docs/design/reading.md).
  case plain
  /// mmap(2) in windows, with plain reads for small files, after a fault, and when memory is short.
  case mapped
}
