import Glibc

/// Reads how much memory is left: what the machine has, and what the control groups leave of it (spec A2).
///
/// Blocking reads of a few small files that live in the kernel; never made on a filesystem thread.
package struct MemoryPressure: Sendable {
  /// Where the kernel shows it; tests have files of their own.
  struct Paths: Hashable, Sendable {
    var memoryInformation = "/proc/meminfo"
    var controlGroups = "/proc/self/cgroup"
    var mounts = "/proc/self/mountinfo"
  }

  /// A directory whose limit holds for this process, and the names of its files.
  private struct Group: Hashable, Sendable {
    var directory: String
    var limit: String
    var usage: String
    /// In memory.stat: file pages that can be dropped at once, which count as used and are as good as free.
    var reclaimable: String
  }

  private let paths: Paths
  private let groups: [Group]

  /// Finds the groups; a process is not moved to others while it runs.
  init(paths: Paths) {
    self.paths = paths
    groups = Self.findGroups(paths)
  }

  /// What holds for this process.
  package init() { self.init(paths: Paths()) }

  /// The least that any of them leaves; nil when nothing can be read.
  package func availableBytes() -> UInt64? {
    (groups.map(Self.left) + [machine()]).compactMap { $0 }.min()
  }

  private func machine() -> UInt64? {
    guard let text = Self.text(of: paths.memoryInformation) else { return nil }
    return Self.value(of: "MemAvailable:", in: text).map { $0.multipliedReportingOverflow(by: 1024) }
      .flatMap { $0.overflow ? nil : $0.partialValue }
  }

  private static func left(in group: Group) -> UInt64? {
    // "max" is no number: no limit.
    guard let limit = number(in: "\(group.directory)/\(group.limit)"),
      let usage = number(in: "\(group.directory)/\(group.usage)")
    else { return nil }
    let statistics = text(of: "\(group.directory)/memory.stat") ?? ""
    let reclaimable = value(of: group.reclaimable, in: statistics) ?? 0
    let used = usage - min(usage, reclaimable)
    return limit - min(limit, used)
  }

  // MARK: Where the groups are

  /// The process's own group and all above it, in each hierarchy that limits memory.
  private static func findGroups(_ paths: Paths) -> [Group] {
    guard let membership = text(of: paths.controlGroups), let mounts = text(of: paths.mounts) else { return [] }
    var groups: [Group] = []
    for line in membership.split(separator: "\n") {
      // hierarchy:controllers:path
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let isUnified = fields[0] == "0" && fields[1].isEmpty
      guard isUnified || fields[1].split(separator: ",").contains("memory") else { continue }
      guard let mount = mount(in: mounts, isUnified: isUnified) else { continue }
      for directory in directories(from: fields[2], in: mount) {
        groups.append(
          isUnified
            ? Group(
              directory: directory, limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file")
            : Group(
              directory: directory, limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes",
              reclaimable: "total_inactive_file"))
      }
    }
    return groups
  }

  /// Where the hierarchy is mounted and which of its groups is seen there as the root.
  private static func mount(in mounts: String, isUnified: Bool) -> (root: Substring, point: Substring)? {
    for line in mounts.split(separator: "\n") {
      // id parent major:minor root point options… - type source superOptions
      let halves = line.split(separator: " - ", maxSplits: 1)
      guard halves.count == 2 else { continue }
      let before = halves[0].split(separator: " ")
      let after = halves[1].split(separator: " ")
      guard before.count >= 5, let type = after.first else { continue }
      let isWanted =
        isUnified
        ? type == "cgroup2" : type == "cgroup" && (after.last?.split(separator: ",").contains("memory") ?? false)
      if isWanted { return (before[3], before[4]) }
    }
    return nil
  }

  /// From the process's group up to the mount's root.
  private static func directories(from path: Substring, in mount: (root: Substring, point: Substring)) -> [String] {
    var rest = path
    // In a container only a part of the hierarchy is mounted, and paths may be told from the true root.
    if mount.root != "/", rest.hasPrefix(mount.root) { rest = rest.dropFirst(mount.root.count) }
    var components = rest.split(separator: "/").filter { $0 != ".." && $0 != "." }
    var directories: [String] = []
    while true {
      directories.append(([mount.point] + components).joined(separator: "/"))
      if components.isEmpty { return directories }
      components.removeLast()
    }
  }

  // MARK: Small files

  private static func number(in path: String) -> UInt64? {
    text(of: path).flatMap { UInt64($0.split(whereSeparator: \.isWhitespace).first ?? "") }
  }

  /// The number behind a key at the start of a line.
  private static func value(of key: String, in text: String) -> UInt64? {
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      if words.count >= 2, words[0] == key { return UInt64(words[1]) }
    }
    return nil
  }

  /// At most 1 MiB: the kernel's tables are shorter, and nothing else belongs there.
  private static func text(of path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    while bytes.count < 1 << 20 {
      let more = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
        count = max(0, Glibc.read(descriptor, buffer.baseAddress, buffer.count))
      }
      if more.isEmpty { break }
      bytes += more
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
