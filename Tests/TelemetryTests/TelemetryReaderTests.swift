import Foundation
import Synchronization
import Testing

@testable import Telemetry

@Suite struct TelemetryReaderTests {
  private let tree: SystemTree

  init() throws { tree = try SystemTree() }

  private func reading() -> TelemetryReading { TelemetryReader(root: tree.root).reading() }

  @Test func aMachineWithoutAnythingSaysNothing() {
    #expect(reading() == TelemetryReading())
    #expect(TelemetryReader(root: "/there/is/no/such/folder").reading() == TelemetryReading())
  }

  @Test func aLaptopSaysEverything() throws {
    try tree.add([
      "class/thermal/thermal_zone0/type": "acpitz\n", "class/thermal/thermal_zone0/temp": "41000\n",
      "class/thermal/thermal_zone10/type": "x86_pkg_temp\n", "class/thermal/thermal_zone10/temp": "67500\n",
      "class/thermal/thermal_zone2/type": "x86_pkg_temp\n", "class/thermal/thermal_zone2/temp": "-2500\n",
      "class/thermal/cooling_device0/type": "Processor\n",
      "class/hwmon/hwmon0/name": "acpitz\n", "class/hwmon/hwmon0/temp1_input": "41000\n",
      "class/hwmon/hwmon1/name": "nvme\n", "class/hwmon/hwmon1/temp1_input": "38850\n",
      "class/hwmon/hwmon1/temp1_label": "Composite\n", "class/hwmon/hwmon1/temp1_max": "80000\n",
      "class/hwmon/hwmon1/fan1_input": "1200\n",
      "class/power_supply/AC/type": "Mains\n", "class/power_supply/AC/online": "0\n",
      "class/power_supply/BAT0/type": "Battery\n", "class/power_supply/BAT0/capacity": "82\n",
      "class/power_supply/BAT0/status": "Discharging\n",
      "class/power_supply/mouse/type": "Battery\n", "class/power_supply/mouse/scope": "Device\n",
      "class/power_supply/mouse/capacity": "5\n",
      "firmware/acpi/platform_profile": "low-power\n",
    ])
    let reading = reading()
    #expect(
      reading.temperatures == [
        .init(sensor: "thermal_zone0", type: "acpitz", celsius: 41),
        .init(sensor: "thermal_zone2", type: "x86_pkg_temp", celsius: -2.5),
        .init(sensor: "thermal_zone10", type: "x86_pkg_temp", celsius: 67.5),
        .init(sensor: "hwmon1/temp1", type: "nvme Composite", celsius: 38.85),
      ])
    #expect(reading.batteries == [.init(name: "BAT0", percent: 82, state: .discharging)])
    #expect(reading.isOnMains == false)
    #expect(reading.powerProfile == "low-power" && reading.isLowPower == true)
  }

  @Test(arguments: [
    "", "\n", "hot", "4e4", "99999999999999999999999", "1000000000", "-274000", "0x10", "\u{1b}[31m40000", "40000\u{0}",
    String(repeating: "9", count: 5000),
  ])
  func nonsenseIsNoTemperature(text: String) throws {
    try tree.add(["class/thermal/thermal_zone0/temp": text, "class/hwmon/hwmon0/temp1_input": text])
    #expect(reading() == TelemetryReading())
  }

  @Test func nonsenseAboutPowerIsNotBelieved() throws {
    try tree.add([
      "class/power_supply/BAT0/type": "Battery", "class/power_supply/BAT0/capacity": "101",
      "class/power_supply/BAT0/status": "Exploding", "class/power_supply/BAT1/type": "Battery",
      "class/power_supply/BAT1/present": "0", "class/power_supply/AC/type": "Mains",
      "class/power_supply/AC/online": "maybe", "class/power_supply/UPS/type": "Flywheel",
      "firmware/acpi/platform_profile": "\u{7f}",
    ])
    var expected = TelemetryReading()
    expected.batteries = [.init(name: "BAT0", percent: nil, state: .unknown)]
    #expect(reading() == expected)
  }

  /// Reading any of these as an ordinary file would hang or fail.
  @Test func whatIsNoFileIsPassedOver() throws {
    try tree.add(["class/thermal/thermal_zone0/temp/inner": "1", "class/thermal/thermal_zone1/type": "x"])
    #expect(mkfifo(tree.root + "/class/thermal/thermal_zone1/temp", 0o600) == 0)
    #expect(symlink("temp", tree.root + "/class/thermal/temp") == 0)
    try tree.add(["class/thermal/thermal_zone3": "a file in the place of a folder", "class/power_supply": "likewise"])
    #expect(symlink(tree.root, tree.root + "/class/hwmon") == 0)
    #expect(symlink("temp", tree.root + "/class/thermal/thermal_zone1/loop") == 0)
    #expect(reading() == TelemetryReading())
  }

  /// What an ordinary user may not read, and a sensor that answers with an error, as that of a sleeping device does.
  @Test func unreadableFilesAreMissing() throws {
    try tree.add([
      "class/thermal/thermal_zone0/temp": "40000", "class/thermal/thermal_zone1/temp": "50000",
      "class/thermal/thermal_zone2/type": "asleep",
    ])
    // Reading it from its beginning fails with EIO.
    #expect(symlink("/proc/self/mem", tree.root + "/class/thermal/thermal_zone2/temp") == 0)
    #expect(reading().temperatures.map(\.celsius) == [40, 50])
    #expect(chmod(tree.root + "/class/thermal/thermal_zone0/temp", 0) == 0)
    #expect(try asOrdinaryUser { reading().temperatures.map(\.celsius) } == [50])
    #expect(chmod(tree.root + "/class/thermal", 0) == 0)
    #expect(try asOrdinaryUser { reading().temperatures.isEmpty })
    #expect(chmod(tree.root + "/class/thermal", 0o755) == 0)
  }

  /// Root may read everything: the calling thread reaches files as another user meanwhile (setfsuid(2)).
  private func asOrdinaryUser<Result>(_ body: () -> Result) throws -> Result {
    guard geteuid() == 0 else { return body() }
    let function = try #require(dlsym(nil, "setfsuid"))
    let setfsuid = unsafeBitCast(function, to: (@convention(c) (uid_t) -> CInt).self)
    _ = setfsuid(65534)
    defer { _ = setfsuid(0) }
    #expect(setfsuid(65534) == 65534)
    return body()
  }

  @Test func manySensorsAreCut() throws {
    for number in 0..<100 { try tree.add(["class/thermal/thermal_zone\(number)/temp": "\(number)000"]) }
    #expect(reading().temperatures.map(\.celsius) == (0..<64).map(Double.init))
  }

  @Test(arguments: [
    (["energy_performance_preference": "power"], true), (["energy_performance_preference": "balance_power"], false),
    (["scaling_governor": "powersave", "scaling_driver": "acpi-cpufreq"], true),
    (["scaling_governor": "powersave", "scaling_driver": "intel_pstate"], false),
    (["scaling_governor": "schedutil"], false),
    (["energy_performance_preference": "performance", "scaling_governor": "powersave"], false),
  ])
  func withoutAProfileTheProcessorSaysWhetherPowerIsSaved(files: [String: String], isLowPower: Bool) throws {
    try tree.add(Dictionary(uniqueKeysWithValues: files.map { ("devices/system/cpu/cpu0/cpufreq/\($0)", $1) }))
    #expect(reading().isLowPower == isLowPower)
    try tree.add(["firmware/acpi/platform_profile": "balanced"])
    #expect(reading().isLowPower == false && reading().powerProfile == "balanced")
  }

  @Test func readsAtMostOnceInAnInterval() throws {
    let start = ContinuousClock.now
    let elapsed = Mutex(Duration.zero)
    try tree.add(["class/thermal/thermal_zone0/temp": "40000"])
    let reader = TelemetryReader(root: tree.root, interval: .seconds(5)) { start + elapsed.withLock { $0 } }
    #expect(reader.reading().temperatures.map(\.celsius) == [40])
    try tree.add(["class/thermal/thermal_zone0/temp": "41000"])
    elapsed.withLock { $0 = .milliseconds(4999) }
    #expect(reader.reading().temperatures.map(\.celsius) == [40])
    elapsed.withLock { $0 = .seconds(5) }
    #expect(reader.reading().temperatures.map(\.celsius) == [41])
  }

  @Test func readsNothingBeforeItIsAsked() throws {
    let reader = TelemetryReader(root: tree.root)
    try tree.add(["class/thermal/thermal_zone0/temp": "40000"])
    #expect(reader.reading().temperatures.count == 1)
  }
}

/// A made-up sysfs, removed with its owner.
private final class SystemTree {
  let root: String

  init() throws {
    root = NSTemporaryDirectory() + "uploadfs-telemetry-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: root) }

  func add(_ files: [String: String]) throws {
    for (path, content) in files {
      let url = URL(fileURLWithPath: "\(root)/\(path)")
      try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(content.utf8).write(to: url)
    }
  }
}
