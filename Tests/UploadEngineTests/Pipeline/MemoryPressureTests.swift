import Glibc
import Testing

@testable import SystemMemory

@Suite struct MemoryPressureTests {
  private let folder: ScratchFolder

  init() throws { folder = try ScratchFolder() }

  /// Writes a file and the folders above it; its path.
  @discardableResult
  private func write(_ name: String, _ text: String) throws -> String {
    var above = ""
    for component in name.split(separator: "/").dropLast() {
      above += component + "/"
      mkdir(folder(above), 0o700)
    }
    try folder.write(Array(text.utf8), to: name)
    return folder(name)
  }

  private func reader(cgroup: String, mounts: String, meminfo: String = "MemTotal: 9 kB\nMemAvailable:   1000 kB\n")
    throws -> MemoryPressure
  {
    try MemoryPressure(
      paths: .init(
        memoryInformation: write("meminfo", meminfo), controlGroups: write("cgroup", cgroup),
        mounts: write("mountinfo", mounts.replacing("ROOT", with: folder.path))))
  }

  private let version2 = "30 23 0:27 / ROOT/cg rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
  private let version1 = """
    31 23 0:28 / ROOT/cpu rw,relatime - cgroup cgroup rw,cpu
    32 23 0:29 / ROOT/memory rw,relatime - cgroup cgroup rw,memory

    """

  @Test func thisMachineHasMemoryAndSaysHowMuch() throws {
    let available = try #require(MemoryPressure().availableBytes())
    #expect(available > 1 << 20)
  }

  @Test func withoutGroups_theMachineDecides() throws {
    #expect(try reader(cgroup: "", mounts: "").availableBytes() == 1_024_000)
    #expect(try reader(cgroup: "0::/\n", mounts: version2).availableBytes() == 1_024_000)
  }

  @Test func theLeastOfGroupAncestorsAndMachineCounts() throws {
    try write("cg/a/memory.max", "500000\n")
    try write("cg/a/memory.current", "450000\n")
    try write("cg/a/memory.stat", "anon 1\ninactive_file 20000\nactive_file 7\n")
    try write("cg/a/b/memory.max", "max\n")
    try write("cg/a/b/memory.current", "1\n")
    #expect(try reader(cgroup: "0::/a/b\n", mounts: version2).availableBytes() == 70_000)
    try write("cg/a/b/memory.max", "60001\n")
    #expect(try reader(cgroup: "0::/a/b\n", mounts: version2).availableBytes() == 60_000)
  }

  /// Regression: memory.high was not read (systemd's MemoryHigh=), at which a group is slowed down.
  @Test(
    arguments: [
      ("500000", "470000", 20_000), ("470000", "500000", 20_000), ("max", "470000", 20_000), (nil, "470000", 20_000),
      ("500000", "max", 50_000), ("500000", nil, 50_000), ("500000", "400000", 0), ("max", "max", 1_024_000),
    ] as [(String?, String?, UInt64)])
  func theLesserLimitOfAGroupCounts(most: String?, high: String?, left: UInt64) throws {
    if let most { try write("cg/a/memory.max", most + "\n") }
    if let high { try write("cg/a/memory.high", high + "\n") }
    try write("cg/a/memory.current", "450000\n")
    #expect(try reader(cgroup: "0::/a\n", mounts: version2).availableBytes() == left)
  }

  /// Regression: a path was not cut at a slash before a combining mark, so that the group above was not seen, and a group whose name is no
  /// UTF-8 was not found.
  @Test func groupsHaveNamesOfAnyBytes() throws {
    try write("cg/a/memory.max", "500000\n")
    try write("cg/a/memory.current", "450000\n")
    #expect(try reader(cgroup: "0::/a/\u{301}b/c\n", mounts: version2).availableBytes() == 50_000)
    let link: [CChar] = Array(folder("cg/caf").utf8CString.dropLast()) + [CChar(bitPattern: 0xe9), 0]
    #expect(symlink("a", link) == 0)
    defer { unlink(link) }
    try folder.write(Array("0::/caf".utf8) + [0xe9, UInt8(ascii: "\n")], to: "cgroup")
    let paths = MemoryPressure.Paths(
      memoryInformation: folder("meminfo"), controlGroups: folder("cgroup"), mounts: folder("mountinfo"))
    #expect(MemoryPressure(paths: paths).availableBytes() == 50_000)
  }

  @Test func theFirstVersionOfControlGroupsCounts() throws {
    try write("memory/job/memory.limit_in_bytes", "300000\n")
    try write("memory/job/memory.usage_in_bytes", "290000\n")
    try write("memory/job/memory.stat", "cache 5\ninactive_file 1\ntotal_inactive_file 15000\n")
    let groups = "5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n"
    #expect(try reader(cgroup: groups, mounts: version1).availableBytes() == 25_000)
  }

  @Test func inAContainer_pathsAreToldFromTheTrueRoot() throws {
    try write("memory/memory.limit_in_bytes", "300000\n")
    try write("memory/memory.usage_in_bytes", "100000\n")
    let mounts = "32 23 0:29 /docker/4f ROOT/memory rw - cgroup cgroup rw,memory\n"
    #expect(try reader(cgroup: "4:memory:/docker/4f\n", mounts: mounts).availableBytes() == 200_000)
  }

  @Test func moreUsedThanAllowedIsNothingLeft() throws {
    try write("cg/a/memory.max", "500\n")
    try write("cg/a/memory.current", "600\n")
    #expect(try reader(cgroup: "0::/a\n", mounts: version2).availableBytes() == 0)
  }

  @Test(arguments: ["", ":", "::", "0::", "x", "4:memory", "0::/../../..\n", "4:memory:/a:b\n", "\u{0}\u{0}\n"])
  func nonsenseIsNoReasonToStop(cgroup: String) throws {
    for mounts in ["", "-", " - ", "1 2 3 4 5 - cgroup2", "32 23 0:29 / ROOT/memory rw - cgroup cgroup rw,memory"] {
      #expect(try reader(cgroup: cgroup, mounts: mounts, meminfo: "MemAvailable: x kB").availableBytes() == nil)
      let huge = "MemAvailable: 18446744073709551615 kB"
      #expect(try reader(cgroup: cgroup, mounts: mounts, meminfo: huge).availableBytes() == nil)
    }
  }

  @Test func noFilesAtAllIsUnknown() {
    let nowhere = MemoryPressure.Paths(
      memoryInformation: "/nowhere/a", controlGroups: "/nowhere/b", mounts: "/nowhere/c")
    #expect(MemoryPressure(paths: nowhere).availableBytes() == nil)
  }
}
