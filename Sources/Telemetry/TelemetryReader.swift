import Synchronization

/// Reads heat and power from sysfs, on demand and at most once in an interval.
///
/// Nothing that decides about uploads can see this: UploadEngine does not depend on the target.
public final class TelemetryReader: Sendable {
  private struct State {
    var reading = TelemetryReading()
    var expires: ContinuousClock.Instant?
    var isReading = false
  }

  /// More thermometers or batteries than a document should hold.
  private static let entriesMax = 64
  /// Beyond this a thermometer is broken or not connected.
  private static let celsiusBelievable = -100.0...250.0

  private let root: SystemFolder
  private let interval: Duration
  private let now: @Sendable () -> ContinuousClock.Instant
  private let state = Mutex(State())

  /// A reader; it reads nothing before it is asked.
  ///
  /// - Parameters:
  ///   - root: Where sysfs is mounted.
  ///   - interval: How long a reading is good for.
  ///   - now: The clock.
  public init(
    root: String = "/sys", interval: Duration = .seconds(5),
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.root = SystemFolder(path: root)
    self.interval = interval
    self.now = now
  }

  /// The machine's heat and power, no older than the interval.
  ///
  /// Some firmware takes long to answer. Only one caller waits for it; the others get the reading before, so that a slow
  /// battery cannot hold up every thread that serves files.
  public func reading() -> TelemetryReading {
    let now = now()
    let known = state.withLock { state -> TelemetryReading? in
      if state.isReading { return state.reading }
      if let expires = state.expires, now < expires { return state.reading }
      state.isReading = true
      return nil
    }
    if let known { return known }
    let fresh = readNow()
    state.withLock { state in
      state.reading = fresh
      state.expires = now + interval
      state.isReading = false
    }
    return fresh
  }

  private func readNow() -> TelemetryReading {
    var reading = TelemetryReading()
    let zones = thermalZones()
    // The kernel shows many thermal zones as hardware monitors, too.
    reading.temperatures = Array((zones + hardwareMonitors(except: Set(zones.map(\.type)))).prefix(Self.entriesMax))
    readPowerSupplies(into: &reading)
    readPowerProfile(into: &reading)
    return reading
  }

  // MARK: - Heat

  private func thermalZones() -> [TelemetryReading.Temperature] {
    let zones = root.folder("class/thermal")
    return zones.names().filter { $0.hasPrefix("thermal_zone") }.compactMap { name in
      temperature(zones.folder(name), "temp", sensor: name, type: zones.folder(name).text("type") ?? name)
    }
  }

  private func hardwareMonitors(except known: Set<String>) -> [TelemetryReading.Temperature] {
    let monitors = root.folder("class/hwmon")
    return monitors.names().flatMap { name -> [TelemetryReading.Temperature] in
      let monitor = monitors.folder(name)
      let driver = monitor.text("name") ?? name
      guard !known.contains(driver) else { return [] }
      return monitor.names().filter { $0.hasPrefix("temp") && $0.hasSuffix("_input") }.compactMap { file in
        let input = String(file.dropLast("_input".count))
        let type = monitor.text("\(input)_label").map { "\(driver) \($0)" } ?? driver
        return temperature(monitor, file, sensor: "\(name)/\(input)", type: type)
      }
    }
  }

  private func temperature(
    _ folder: SystemFolder, _ file: String, sensor: String, type: String
  ) -> TelemetryReading.Temperature? {
    guard let thousandths = folder.number(file) else { return nil }
    let celsius = Double(thousandths) / 1000
    guard Self.celsiusBelievable.contains(celsius) else { return nil }
    return TelemetryReading.Temperature(sensor: sensor, type: type, celsius: celsius)
  }

  // MARK: - Power

  private func readPowerSupplies(into reading: inout TelemetryReading) {
    let supplies = root.folder("class/power_supply")
    for name in supplies.names() {
      let supply = supplies.folder(name)
      // A mouse's battery says nothing about this machine.
      guard supply.text("scope") != "Device" else { continue }
      switch supply.text("type") {
      case "Battery":
        guard reading.batteries.count < Self.entriesMax, supply.number("present") != 0 else { continue }
        let percent = supply.number("capacity").flatMap { (0...100).contains($0) ? $0 : nil }
        reading.batteries.append(.init(name: name, percent: percent, state: batteryState(supply.text("status"))))
      case "Mains", "USB":
        guard let online = supply.number("online") else { continue }
        reading.isOnMains = (reading.isOnMains ?? false) || online > 0
      default: continue
      }
    }
  }

  private func batteryState(_ text: String?) -> TelemetryReading.Battery.State {
    switch text {
    case "Charging": .charging
    case "Discharging": .discharging
    case "Full": .full
    case "Not charging": .idle
    default: .unknown
    }
  }

  /// Where the firmware has profiles, the user chooses one of these; elsewhere the processor's driver knows what was asked.
  private func readPowerProfile(into reading: inout TelemetryReading) {
    if let profile = root.folder("firmware/acpi").text("platform_profile") {
      reading.powerProfile = profile
      reading.isLowPower = profile == "low-power"
      return
    }
    let frequency = root.folder("devices/system/cpu/cpu0/cpufreq")
    if let preference = frequency.text("energy_performance_preference") {
      reading.powerProfile = preference
      reading.isLowPower = preference == "power"
    } else if let governor = frequency.text("scaling_governor") {
      reading.powerProfile = governor
      // To a driver that scales by itself, `powersave` is the ordinary governor.
      let scalesItself = frequency.text("scaling_driver").map { $0.contains("pstate") } ?? false
      reading.isLowPower = governor == "powersave" && !scalesItself
    }
  }
}
