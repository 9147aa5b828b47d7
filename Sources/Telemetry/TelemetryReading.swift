/// What the machine says about its heat and power at one moment: for people and graphs, and for nothing else.
///
/// Everything may be missing: a server has no battery, a virtual machine no thermometer.
public struct TelemetryReading: Hashable, Sendable {
  /// One thermometer.
  public struct Temperature: Hashable, Sendable {
    /// Which one, unique on this machine: `thermal_zone0`, `hwmon1/temp2`.
    public var sensor: String
    /// What it measures, in the driver's words: `x86_pkg_temp`, `nvme Composite`.
    public var type: String
    /// Degrees Celsius.
    public var celsius: Double

    /// Describes a thermometer.
    public init(sensor: String, type: String, celsius: Double) {
      self.sensor = sensor
      self.type = type
      self.celsius = celsius
    }
  }

  /// One battery that powers the machine.
  public struct Battery: Hashable, Sendable {
    /// What it is doing.
    public enum State: String, Hashable, Sendable, CaseIterable {
      case charging
      /// The machine lives on it.
      case discharging
      case full
      /// On the mains, neither full nor being filled.
      case idle
      /// It does not say.
      case unknown
    }

    /// Its name: `BAT0`.
    public var name: String
    /// 0 to 100; nil when it does not say.
    public var percent: Int?
    /// What it is doing.
    public var state: State

    /// Describes a battery.
    public init(name: String, percent: Int?, state: State) {
      self.name = name
      self.percent = percent
      self.state = state
    }
  }

  /// Thermometers, in the order of their names.
  public var temperatures: [Temperature] = []
  /// Batteries, in the order of their names.
  public var batteries: [Battery] = []
  /// The mains are connected; nil when the machine does not say.
  public var isOnMains: Bool?
  /// The platform profile, or the processor's energy preference or governor where there is none, in the kernel's words.
  public var powerProfile: String?
  /// The machine was told to save power; nil when it does not say.
  public var isLowPower: Bool?

  /// A machine that says nothing.
  public init() {}
}
