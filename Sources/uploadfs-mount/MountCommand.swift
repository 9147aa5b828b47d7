import ArgumentParser
import CLinux
import FoundationEssentials
import Glibc
import MountConfiguration

/// Mounts, and stays in the foreground until told to stop.
struct MountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "mount", abstract: "Mount a folder that uploads what is written into it.",
    discussion: """
      Stays in the foreground. When the mount is usable, stdout says “mounted MOUNTPOINT” and a service manager is \
      notified. SIGINT, SIGTERM and SIGHUP (a window that is closed) deliver what is left, then unmount; a second SIGINT \
      or SIGTERM, a second after the first, leaves at once and loses nothing: what is pending lies in the spool and goes \
      on at the next start.

      Every setting can also be given in the environment (--chunk-size as UPLOADFS_CHUNK_SIZE) and in a YAML file \
      (chunk-size: 4MiB). Flags win over the environment, the environment over the file.
      """)

  @Argument(help: "An empty folder.")
  var mountPoint: String

  @OptionGroup
  var settings: SettingOptions

  func run() throws {
    try reportingFailures {
      // Before anything starts a thread: threads inherit what is blocked.
      Signals.block()
      // The kernel has applied each writer's own umask before a mode arrives here.
      umask(0)
      OpenFileLimit.raise()
      giveFreedMemoryBack()
      forbidCoreDumps()
      uploadfs_end_on_faults()
      let configuration = try settings.configuration(environment: ProcessInfo.processInfo.environment)
      try MachineShares.requireThreads(MachineRequirements(configuration))
      return try MountSession(configuration, mountPoint: mountPoint).run()
    }
  }

  /// What earlier runs left of a hundred thousand files is read at the start, and let go of once the spool has been searched.
  private func giveFreedMemoryBack() { _ = uploadfs_keep_little_memory(Self.freeHeapBytesMax, Self.heapBlockBytesMax) }

  private static let freeHeapBytesMax = 1 << 20
  private static let heapBlockBytesMax = 4 << 20

  /// A core dump would hold tokens, keys and passwords. To the kernel a limit of 1 byte also forbids those that go through a
  /// pipe to a program, for which a limit of 0 would count as none.
  private func forbidCoreDumps() {
    var limit = rlimit(rlim_cur: 1, rlim_max: 1)
    setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  }
}
