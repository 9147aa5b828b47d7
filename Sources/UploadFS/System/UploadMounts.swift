import CLinux
import Glibc

/// The uploadfs mounts that can be seen from here, by the number of their filesystem: bind mounts have the same one.
public struct UploadMounts: Hashable, Sendable {
  private var mountPoints: [UInt64: String] = [:]

  /// Those of a text as in `/proc/self/mountinfo` (proc(5)).
  init(mountinfo: String) {
    for line in mountinfo.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard let dash = fields.firstIndex(of: "-"), dash > 5, fields.count > dash + 1,
        fields[dash + 1] == "fuse.uploadfs"
      else { continue }
      let numbers = fields[2].split(separator: ":").compactMap { UInt64($0) }
      guard numbers.count == 2 else { continue }
      let device = Self.device(major: numbers[0], minor: numbers[1])
      // The first one is where it was mounted.
      if mountPoints[device] == nil { mountPoints[device] = String(fields[4]) }
    }
  }

  /// Those of this process's mount namespace.
  public static var current: UploadMounts { UploadMounts(mountinfo: mountinfo ?? "") }

  /// Whether the system shows mounts here; without `/proc` it does not.
  public static var areShown: Bool { mountinfo != nil }

  /// What the kernel lists; nil where it does not say.
  static var mountinfo: String? {
    guard let file = fopen("/proc/self/mountinfo", "re") else { return nil }
    defer { fclose(file) }
    var text: [UInt8] = []
    var block = [UInt8](repeating: 0, count: 1 << 14)
    while true {
      let count = fread(&block, 1, block.count, file)
      guard count > 0 else { break }
      text += block[..<count]
    }
    return text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
  }

  /// The mount point of the first mount in which one of the paths lies; nil when none does.
  public func holding(_ paths: String...) -> String? {
    for path in paths {
      var status = stat()
      if stat(path, &status) == 0, let mountPoint = mountPoints[UInt64(status.st_dev)] { return mountPoint }
    }
    return nil
  }

  /// Whether one of them is mounted at a path, and it does not only hold the path.
  public func isMounted(at path: String) -> Bool {
    var status = stat()
    var parent = stat()
    guard stat(path, &status) == 0, stat(path + "/..", &parent) == 0 else { return false }
    return isMounted(device: UInt64(status.st_dev), parentDevice: UInt64(parent.st_dev))
  }

  /// The same of the numbers of the path's filesystem and of the one above it.
  func isMounted(device: UInt64, parentDevice: UInt64) -> Bool {
    mountPoints[device] != nil && device != parentDevice
  }

  /// makedev(3), a macro.
  static func device(major: UInt64, minor: UInt64) -> UInt64 {
    (major & 0xfff) << 8 | (major & ~0xfff) << 32 | minor & 0xff | (minor & ~0xff) << 12
  }
}
