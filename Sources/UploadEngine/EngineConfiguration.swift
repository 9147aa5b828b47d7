public import Threads

/// How an engine is set up. Every value has the specification's default.
public struct EngineConfiguration: Sendable {
  /// Bounds and rates.
  public var limits = UploadLimits()
  /// Threads that read and hash; they share the machine with the capture tool.
  public var readThreads = 2
  /// How far behind the capture tool come those that hash, and what sends.
  public var priority = UploadPriority.low
  /// How they read.
  public var reading = ReadingMethod.plain
  /// The engines of this process, one for each destination. They share its memory, and read the same files.
  public var enginesOfProcess = 1
  /// Tells how much memory is left, about once a second; nil asks the machine and the control groups.
  public var availableMemory: (@Sendable () -> UInt64?)?
  /// The destination is asked at the start whether it takes the credentials.
  public var triesCredentials = false
  /// Masks the secrets in what a server says, before it is logged, shown or kept; called from any thread.
  public var hide: (@Sendable (String) -> String)?
  /// The machine's name, for `{host}`.
  public var hostName = ""
  /// Where the time comes from.
  public var clock: any EngineClock = SystemClock()
  /// Where jitter and nonces come from. Nonces are salts and must be unpredictable in production.
  public var random: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()

  /// The specification's values.
  public init() {}
}
