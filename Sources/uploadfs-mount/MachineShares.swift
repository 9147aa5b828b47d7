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
    guard
      let shortage = ThreadRoom.shortageMessage(
        of: needs.threads, perProcessor: MachineRequirements.threadsPerProcessor)
    else {
      return
    }
    throw ToolFailure(.internalError, shortage)
  }

  static func say(_ needs: MachineRequirements, _ logger: Logger) {
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0,
      let shortage = needs.shortageMessage(ofDescriptors: UInt64(limit.rlim_cur))
    {
      logger.warning("\(shortage)")
    }
    if let available = MemoryPressure().availableBytes(),
      let shortage = needs.shortageMessage(ofMemory: available, takenBytes: memoryTaken)
    {
      logger.warning("\(shortage)")
    }
  }
}
