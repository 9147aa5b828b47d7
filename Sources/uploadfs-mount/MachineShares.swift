import Glibc
import Logging
import MountConfiguration
import SystemMemory
import Threads

/// What a mount needs of its machine: too little of it is said at the start, with the number that is needed.
enum MachineShares {
  /// What the program has by itself when it looks.
  private static let memoryTaken: UInt64 = 12 << 20

  /// Before anything starts a thread.
  static func requireThreads(_ needs: MachineRequirements) throws(ToolFailure) {
    guard let lack = ThreadRoom.lack(of: needs.threads, perProcessor: MachineRequirements.threadsPerProcessor) else {
      return
    }
    throw ToolFailure(.internalError, lack)
  }

  static func say(_ needs: MachineRequirements, _ logger: Logger) {
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0,
      let lack = needs.lack(ofDescriptors: UInt64(limit.rlim_cur))
    {
      logger.warning("\(lack)")
    }
    if let available = MemoryPressure().availableBytes(),
      let lack = needs.lack(ofMemory: available, takenBytes: memoryTaken)
    {
      logger.warning("\(lack)")
    }
  }
}
