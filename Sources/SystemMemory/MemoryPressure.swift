import Glibc

/// Reads how much memory is left: what the machine has, and what the control groups leave of it.
///
/// Blocking reads of a few small files that live in the kernel; never made on a filesystem thread.
package struct MemoryPressure: Sendable {
  /// Where the kernel shows it; tests have files of their own.
  struct Paths: Hashable, Sendable {
    var memoryInformation = "/proc/meminfo"
    var controlGroups = "/proc/self/cgroup"
    var mounts = "/proc/self/mountinfo"
  }

  /// A directory whose limits hold for this process, and the names of its files.
  private struct Group: Hashable, Sendable {
    /// Bytes: a group may have any name.
    var directory: [UInt8]
    /// The least of them counts.
    var limits: [String]
    var usage: String
    /// In memory.stat: file pages that can be dropped at once, which count as used and are as good as free.
    var reclaimable: String
  }

  private static let slash = UInt8(ascii: "/")

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
    guard let text = Self.text(of: Array(paths.memoryInformation.utf8)) else { return nil }
    return Self.value(of: "MemAvailable:", in: text).map { $0.multipliedReportingOverflow(by: 1024) }
      .flatMap { $0.overflow ? nil : $0.partialValue }
  }

  private static func left(in group: Group) -> UInt64? {
    // "max" is no number: no limit. A file that is not there is none either.
    guard let limit = group.limits.compactMap({ number(in: group, $0) }).min(),
      let usage = number(in: group, group.usage)
    else { return nil }
    let statistics = text(in: group, "memory.stat") ?? ""
    let reclaimable = value(of: group.reclaimable, in: statistics) ?? 0
    let used = usage - min(usage, reclaimable)
    return limit - min(limit, used)
  }

  // MARK: Where the groups are

  /// The process's own group and all above it, in each hierarchy that limits memory.
  private static func findGroups(_ paths: Paths) -> [Group] {
    guard let membership = bytes(of: Array(paths.controlGroups.utf8)), let mounts = bytes(of: Array(paths.mounts.utf8))
    else { return [] }
    var groups: [Group] = []
    for line in membership.split(separator: UInt8(ascii: "\n")) {
      // hierarchy:controllers:path
      let fields = line.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let isUnified = fields[0].isText("0") && fields[1].isEmpty
      guard isUnified || fields[1].holdsWord("memory") else { continue }
      guard let mount = mount(in: mounts, isUnified: isUnified) else { continue }
      for directory in directories(from: fields[2], in: mount) {
        groups.append(
          isUnified
            // At memory.high nothing is killed, but threads that go on are slowed down until others have given memory back.
            ? Group(
              directory: directory, limits: ["memory.max", "memory.high"], usage: "memory.current",
              reclaimable: "inactive_file")
            : Group(
              directory: directory, limits: ["memory.limit_in_bytes"], usage: "memory.usage_in_bytes",
              reclaimable: "total_inactive_file"))
      }
    }
    return groups
  }

  /// Where the hierarchy is mounted and which of its groups is seen there as the root.
  private static func mount(
    in mounts: [UInt8], isUnified: Bool
  ) -> (root: ArraySlice<UInt8>, point: ArraySlice<UInt8>)? {
    for line in mounts.split(separator: UInt8(ascii: "\n")) {
      // id parent major:minor root point options… - type source superOptions
      let fields = line.split(separator: UInt8(ascii: " "))
      guard let dash = fields.firstIndex(where: { $0.isText("-") }), dash >= 5, dash + 1 < fields.count,
        let options = fields.last
      else { continue }
      let type = fields[dash + 1]
      let isWanted = isUnified ? type.isText("cgroup2") : type.isText("cgroup") && options.holdsWord("memory")
      if isWanted { return (fields[3], fields[4]) }
    }
    return nil
  }

  /// From the process's group up to the mount's root.
  private static func directories(
    from path: ArraySlice<UInt8>, in mount: (root: ArraySlice<UInt8>, point: ArraySlice<UInt8>)
  ) -> [[UInt8]] {
    var rest = path
    // In a container only a part of the hierarchy is mounted, and paths may be told from the true root.
    let below = rest.dropFirst(mount.root.count)
    if rest.starts(with: mount.root), below.isEmpty || below.first == slash { rest = below }
    var components = rest.split(separator: slash).filter { !$0.isText("..") && !$0.isText(".") }
    var directories: [[UInt8]] = []
    while true {
      directories.append(Array(([mount.point] + components).joined(separator: [slash])))
      if components.isEmpty { return directories }
      components.removeLast()
    }
  }

  // MARK: Small files

  private static func number(in group: Group, _ name: String) -> UInt64? {
    text(in: group, name).flatMap { UInt64($0.split(whereSeparator: \.isWhitespace).first ?? "") }
  }

  private static func text(in group: Group, _ name: String) -> String? {
    text(of: group.directory + [slash] + name.utf8)
  }

  /// The number behind a key at the start of a line.
  private static func value(of key: String, in text: String) -> UInt64? {
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      if words.count >= 2, words[0] == key { return UInt64(words[1]) }
    }
    return nil
  }

  private static func text(of path: [UInt8]) -> String? {
    bytes(of: path).map { String(decoding: $0, as: UTF8.self) }
  }

  /// At most 1 MiB: the kernel's tables are shorter, and nothing else belongs there.
  private static func bytes(of path: [UInt8]) -> [UInt8]? {
    let name: [CChar] = path.map { CChar(bitPattern: $0) } + [0]
    let descriptor = open(name, O_RDONLY | O_CLOEXEC)
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
    return bytes
  }
}

extension ArraySlice<UInt8> {
  fileprivate func isText(_ text: String) -> Bool { elementsEqual(text.utf8) }

  /// Among words with commas between them.
  fileprivate func holdsWord(_ word: String) -> Bool {
    split(separator: UInt8(ascii: ",")).contains { $0.isText(word) }
  }
}
