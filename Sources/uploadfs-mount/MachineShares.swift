import Glibc
import Logging
import MountConfiguration
import SystemMemory
import Threads
import UploadFS

/// What a mount needs of its machine: too little of it is said at the start, with the number that is needed.
enum MachineShares {
  /// Beside the captures that lie in the page cache (docs/configuration.md).
  private static let memoryMin: UInt64 = 48 << 20
  /// What of that the program has by itself when it looks.
  private static let memoryTaken: UInt64 = 12 << 20
  private static let threads = (fixed: 28, perProcessor: 1)

  /// Before anything starts a thread.
  static func requireThreads() throws(ToolFailure) {
    guard let lack = ThreadRoom.lack(of: threads.fixed, perProcessor: threads.perProcessor) else { return }
    throw ToolFailure(.internalError, lack)
  }

  static func say(_ logger: Logger) {
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < OpenCaptures.limitMin {
      logger.warning(
        "this process may have \(limit.rlim_cur) files open; to deliver beside open captures it needs \(OpenCaptures.limitMin) (ulimit -Hn, LimitNOFILE=)"
      )
    }
    if let available = MemoryPressure().availableBytes(), available + memoryTaken < memoryMin {
      logger.warning(
        "\(available >> 20) MiB of memory are available; a mount needs \(memoryMin >> 20) MiB (MemoryMax=, or the machine's)"
      )
    }
  }
}
