/// How much memory request bodies may hold.
public enum BodyMemory {
  /// Where there is enough.
  public static let most = 768 << 20
  /// What a receiver needs, as measured (docs/configuration.md): to take chunks of the size that a mount chooses, and the largest.
  private static let needed: (least: UInt64, forLargestBodies: UInt64) = (48 << 20, 128 << 20)

  /// Half of what is available: what is stored passes the kernel's and TLS's memory as well. Never less than the largest body as it is; an
  /// encoded one may need more than all of it, and is in memory alone then.
  public static func bytes(of availableBytes: UInt64?, largestBody: Int) -> Int {
    guard let availableBytes else { return most }
    return min(most, max(largestBody, Int(clamping: availableBytes / 2)))
  }

  /// What is wrong where so much is left beside what the program has already; nil where that is enough.
  /// - Parameters:
  ///   - takenBytes: What the program has by itself when it looks.
  ///   - largestBody: Bytes of the largest chunk.
  public static func shortageMessage(of availableBytes: UInt64, takenBytes: UInt64, largestBody: Int) -> String? {
    // Neither sum nor difference of what is not short can overflow.
    let bytes = min(availableBytes, needed.forLargestBodies) + takenBytes
    guard bytes < needed.forLargestBodies else { return nil }
    let forLargest = "\(needed.forLargestBodies >> 20) MiB for chunks of \(largestBody >> 20) MiB"
    let need = bytes < needed.least ? "\(needed.least >> 20) MiB, and \(forLargest)" : forLargest
    return
      "\(availableBytes >> 20) MiB of memory are available; a receiver needs \(need) (MemoryMax=, or the machine's)"
  }
}
