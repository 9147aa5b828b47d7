/// What a mount with these settings needs of its machine, as measured (docs/configuration.md, "What both programs need").
public struct MachineRequirements: Hashable, Sendable {
  /// Beside the captures that lie in the page cache.
  public let memoryBytes: UInt64
  /// Open files, to deliver at all.
  public let descriptors: Int
  /// Open files, to deliver beside many open captures.
  public let descriptorsBesideCaptures: Int
  /// What open captures leave of them for the destinations.
  public let descriptorsForDelivery: Int
  /// Threads, without ``threadsPerProcessor``.
  public let threads: Int

  /// One for each processor, of the language's own pool.
  public static let threadsPerProcessor = 1

  /// What one destination needs, and what each further one adds: its connections, its read buffers, its threads.
  private static let memory: (least: UInt64, further: UInt64) = (48 << 20, 32 << 20)
  private static let descriptors = (least: 64, besideCaptures: 160, forDelivery: 96, further: 32)
  /// Of the least, 12 are the mount's and 10 the destination's, and 5 come and go (docs/design/threads.md).
  private static let threads = (least: 27, further: 9)
  /// The smallest budget holds two chunks in flight and one that is read ahead; one more is on its way through the system.
  private static let chunksHeld: UInt64 = 4

  /// Those of a mount with these settings.
  public init(_ configuration: MountConfiguration) {
    let chunkBytes = configuration.further.map(\.configuration.chunkBytes) + [configuration.chunkBytes]
    let largest = UInt64(clamping: chunkBytes.max() ?? 0)
    let further = configuration.further.count
    memoryBytes = max(Self.memory.least, Self.chunksHeld * largest) + UInt64(further) * Self.memory.further
    descriptors = Self.descriptors.least + further * Self.descriptors.further
    descriptorsBesideCaptures = Self.descriptors.besideCaptures + further * Self.descriptors.further
    descriptorsForDelivery = Self.descriptors.forDelivery + further * Self.descriptors.further
    threads = Self.threads.least + configuration.threadCount + further * Self.threads.further
  }

  /// What is wrong where the process may have so many files open; nil where that is enough.
  public func shortageMessage(ofDescriptors limit: UInt64) -> String? {
    let advice = "(ulimit -Hn, LimitNOFILE=)"
    guard limit < UInt64(clamping: descriptorsBesideCaptures) else { return nil }
    let more = "\(descriptorsBesideCaptures) to deliver beside many open captures \(advice)"
    return limit < UInt64(clamping: descriptors)
      ? "this process may have \(limit) files open; a mount with these settings needs \(descriptors), and \(more)"
      : "this process may have \(limit) files open; it needs \(more)"
  }

  /// What is wrong where so much memory is left beside what the program has already; nil where that is enough.
  /// - Parameter takenBytes: What the program has by itself when it asks.
  public func shortageMessage(ofMemory availableBytes: UInt64, takenBytes: UInt64) -> String? {
    guard availableBytes < memoryBytes, availableBytes + takenBytes < memoryBytes else { return nil }
    return
      "\(availableBytes >> 20) MiB of memory are available; a mount with these settings needs \(memoryBytes >> 20) MiB (MemoryMax=, or the machine's)"
  }
}
