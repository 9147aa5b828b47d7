import CLinux
public import CurlTransport
import Glibc
import SystemMemory
public import UploadFS

/// What a mount needs of this machine, as it is now.
public struct MachineState: Hashable, Sendable {
  /// The folder for captures.
  public struct Spool: Hashable, Sendable {
    /// As it was given.
    public var path: String
    /// The nearest folder that exists; the spool itself, or where it would be made.
    public var existing: String
    /// Why nothing can be written there; nil when it can.
    public var refusal: String?
    /// Its files can have user extended attributes; nil when that was not tried.
    public var hasAttributes: Bool?
    /// Bytes that this user may still write.
    public var freeBytes: UInt64
    /// Files that can still be made; nil where the filesystem does not count them.
    public var freeFiles: UInt64?
    /// Whether its filesystem may refuse bytes that it has room for.
    public var quotas: SpoolQuotas
    /// What kind of filesystem it is, where that matters.
    public var kind: Kind
    /// The process whose mount uses it; nil when none does.
    public var usedBy: Int32?
    /// Who else gets at it; nil when it is still to be made.
    public var privacy: SpoolPrivacy?
    /// The mount point of the uploadfs mount in which it lies; nil when it lies in none.
    public var uploadMount: String?
    /// What an earlier mount has made there and is not there any more, although the rest of it is: `captures` or `.state`.
    public var missingFolder: String?
    /// The spool that was meant, where this is a folder of it.
    public var owner: String?
    /// The spool in whose captures it lies; nil when it lies in none.
    public var outer: String?

    /// Filesystems that are no ordinary disk.
    public enum Kind: Hashable, Sendable {
      case disk
      /// Memory: gone after a restart.
      case memory
      /// Another machine's.
      case network
      case fuse
      /// The kernel's own: no place for files.
      case kernel
    }
  }

  /// What TCP does here.
  public struct Congestion: Hashable, Sendable {
    /// What a new connection has; nil when that is not known.
    public var systemName: String?
    /// Why a connection cannot have `bbr`; nil when it can.
    public var refusalOfBBR: CongestionControl.Refusal?
  }

  /// Nil when no spool was given.
  public var spool: Spool?
  /// What there is of FUSE.
  public var fuse: FuseSupport
  /// Runs as root, or may mount like it.
  public var mayMount: Bool
  /// Runs as root.
  public var isRoot: Bool
  /// The kernel's version, as `6.1.0-18-amd64`.
  public var kernel: String
  /// How many files a process of this user may open at most.
  public var openFilesMax: UInt64
  /// Memory that is left; nil when that is not known.
  public var availableBytes: UInt64?
  /// What TCP does here.
  public var congestion: Congestion

  /// Asks this machine. What is tried is taken away again at once.
  public static func current(spool: String?) -> MachineState {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var system = utsname()
    uname(&system)
    let release = withUnsafeBytes(of: &system.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    return MachineState(
      spool: spool.map(probe), fuse: .current, mayMount: hasMountCapability, isRoot: geteuid() == 0, kernel: release,
      openFilesMax: UInt64(limit.rlim_max), availableBytes: MemoryPressure().availableBytes(),
      congestion: Congestion(
        systemName: CongestionControl.systemName,
        refusalOfBBR: CongestionControl.refusal(of: CongestionControl.bbr.rawValue)))
  }

  /// CAP_SYS_ADMIN, number 21 (linux/capability.h).
  private static var hasMountCapability: Bool {
    let lines = text(of: "/proc/self/status").split(separator: "\n")
    guard let line = lines.first(where: { $0.hasPrefix("CapEff:") }),
      let set = UInt64(line.dropFirst(7).drop { $0 == "\t" || $0 == " " }, radix: 16)
    else { return geteuid() == 0 }
    return set & (1 << 21) != 0
  }

  // MARK: The spool

  private static func probe(_ path: String) -> Spool {
    var existing = path
    var status = stat()
    while stat(existing, &status) != 0, errno == ENOENT {
      let parent = existing.unicodeScalars.lastIndex(of: "/").map { String(existing[..<$0]) }
      existing = parent.map { $0.isEmpty ? "/" : $0 } ?? "."
    }
    var numbers = statvfs()
    statvfs(existing, &numbers)
    let free = UInt64(numbers.f_bavail).multipliedReportingOverflow(by: UInt64(numbers.f_frsize)).partialValue
    var refusal: String?
    var hasAttributes: Bool?
    if status.st_mode & S_IFMT != S_IFDIR {
      refusal = "\(existing) is no folder"
    } else if existing == path {
      (refusal, hasAttributes) = tryToWrite(in: path)
    } else if access(existing, W_OK | X_OK) != 0 {
      refusal = "\(existing): \(systemText(errno))"
    }
    return Spool(
      path: path, existing: existing, refusal: refusal, hasAttributes: hasAttributes, freeBytes: free,
      freeFiles: numbers.f_files > 0 ? UInt64(numbers.f_favail) : nil, quotas: SpoolQuotas(at: existing),
      kind: kind(of: existing), usedBy: owner(of: path + "/.state/lock"),
      privacy: existing == path ? SpoolPrivacy(of: path) : nil,
      uploadMount: UploadMounts.current.holding(existing, path + "/captures", path + "/.state"),
      missingFolder: missingFolder(of: path), owner: spool(with: path),
      outer: SpoolFolder.spool(aroundPlaceOf: path))
  }

  private static func missingFolder(of spool: String) -> String? {
    switch (isFolder(spool + "/captures"), isFolder(spool + "/.state")) {
    case (false, true): "captures"
    // One that holds nothing may have been made for the first mount.
    case (true, false): holdsSomething(spool + "/captures") ? ".state" : nil
    case (true, true), (false, false): nil
    }
  }

  /// The folder above, where that is a spool and this is a part of it.
  private static func spool(with folder: String) -> String? {
    let above = folder + "/.."
    guard isFolder(above + "/captures"), isFolder(above + "/.state"), let path = realpath(folder, nil) else {
      return nil
    }
    defer { free(path) }
    let parts = String(cString: path).unicodeScalars.split(separator: "/").map(String.init)
    guard let name = parts.last, ["captures", ".state"].contains(name) else { return nil }
    return "/" + parts.dropLast().joined(separator: "/")
  }

  private static func isFolder(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  private static func holdsSomething(_ path: String) -> Bool {
    guard let stream = opendir(path) else { return false }
    defer { closedir(stream) }
    return uploadfs_next_child(stream) != nil
  }

  private static func tryToWrite(in folder: String) -> (refusal: String?, hasAttributes: Bool?) {
    var template = Array("\(folder)/.uploadfs-doctor-XXXXXX".utf8CString)
    let descriptor = mkstemp(&template)
    guard descriptor >= 0 else { return ("\(folder): \(systemText(errno))", nil) }
    defer {
      close(descriptor)
      unlink(template)
    }
    let bytes = [UInt8](repeating: 1, count: 4096)
    guard write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0 else {
      return ("\(folder): \(systemText(errno))", nil)
    }
    return (nil, uploadfs_set_attribute(descriptor, "user.uploadfs.doctor", "1", 1) == 0)
  }

  /// Numbers of linux/magic.h and of the filesystems themselves.
  private static func kind(of path: String) -> Spool.Kind {
    switch uploadfs_filesystem_kind(path) {
    case 0x0102_1994, 0x8584_58f6: return .memory
    case 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x517b, 0x00c3_6400, 0x0102_1997: return .network
    case 0x6573_5546: return .fuse
    // proc, sysfs, cgroup (both), devpts, debugfs, tracefs, securityfs, bpf, configfs.
    case 0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x1cd1, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0xcafe_4a11,
      0x6265_6570:
      return .kernel
    default: return .disk
    }
  }

  /// Who holds the lock of a file. The kernel's own list is read, because to try the lock would be to take it.
  private static func owner(of path: String) -> Int32? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    for line in text(of: "/proc/locks").split(separator: "\n") {
      let parts = line.split(separator: " ")
      guard parts.count >= 6, parts[1] == "FLOCK", parts[5].hasSuffix(":\(status.st_ino)") else { continue }
      return Int32(parts[4])
    }
    return nil
  }

  /// A file of the kernel's; empty when it cannot be read.
  private static func text(of path: String) -> String {
    guard let file = fopen(path, "re") else { return "" }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var block = [UInt8](repeating: 0, count: 4096)
    while bytes.count < 1 << 20 {
      let count = fread(&block, 1, block.count, file)
      guard count > 0 else { break }
      bytes += block[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
