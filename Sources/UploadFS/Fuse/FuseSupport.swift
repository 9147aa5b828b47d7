import CFuse
import Glibc

/// What this machine has of FUSE, for checks before a mount.
public struct FuseSupport: Hashable, Sendable {
  /// Whether `/dev/fuse` can be opened.
  public enum Device: Hashable, Sendable {
    case usable
    case missing
    case refused(errno: Int32)
  }

  /// The kernel's device.
  public var device: Device
  /// libfuse's version, as `3.14.0`.
  public var libraryVersion: String
  /// This libfuse can let the kernel read and write files of the spool by itself.
  public var libraryHasPassthrough: Bool
  /// fusermount3 is installed; only root can do without.
  public var hasMountHelper: Bool
  /// `/etc/fuse.conf` lets ordinary users open their mounts to others.
  public var allowsOthers: Bool

  /// What is known from elsewhere.
  public init(
    device: Device, libraryVersion: String, libraryHasPassthrough: Bool, hasMountHelper: Bool, allowsOthers: Bool
  ) {
    self.device = device
    self.libraryVersion = libraryVersion
    self.libraryHasPassthrough = libraryHasPassthrough
    self.hasMountHelper = hasMountHelper
    self.allowsOthers = allowsOthers
  }

  /// This machine's.
  public static var current: FuseSupport {
    FuseSupport(
      device: openedDevice, libraryVersion: loadedVersion,
      libraryHasPassthrough: uploadfs_has_passthrough(), hasMountHelper: MountPoint.isInstalled("fusermount3"),
      allowsOthers: configurationAllowsOthers)
  }

  /// That of the libfuse that is loaded, as `3.14.0`.
  public static var loadedVersion: String { fuse_pkgversion().map { String(cString: $0) } ?? "unknown" }

  private static var openedDevice: Device {
    let descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC)
    guard descriptor < 0 else {
      close(descriptor)
      return .usable
    }
    return errno == ENOENT ? .missing : .refused(errno: errno)
  }

  private static var configurationAllowsOthers: Bool {
    guard let file = fopen("/etc/fuse.conf", "re") else { return false }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while getline(&line, &capacity, file) >= 0 {
      if let line, String(cString: line).split(whereSeparator: \.isWhitespace) == ["user_allow_other"] { return true }
    }
    return false
  }
}
