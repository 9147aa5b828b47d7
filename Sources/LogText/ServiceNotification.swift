import Glibc

/// What a service manager is told (sd_notify(3)).
public enum ServiceNotification {
  /// The program can be used.
  public static func ready(status: String) { Output.notifications.put("READY=1\nSTATUS=\(status)\n") }

  /// The program ends; how far that is follows.
  public static func stopping(status: String) { Output.notifications.put("STOPPING=1\nSTATUS=\(status)\n") }

  /// How far things are; an earlier status that was not sent yet is left out.
  public static func status(_ status: String) { Output.notifications.show("STATUS=\(status)\n") }

  /// The program answers: what a service manager with a watchdog waits for.
  public static func alive() { Output.notifications.put("WATCHDOG=1\n") }

  /// How often this process has to say ``alive()``; nil where no service manager waits for it (sd_watchdog_enabled(3)).
  public static var watchdogPause: Duration? {
    func text(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
    return watchdogPause(limit: text("WATCHDOG_USEC"), process: text("WATCHDOG_PID"), own: getpid())
  }

  /// A third of the time after which a silent process is ended: one word may come late.
  /// - Parameters:
  ///   - limit: That time, in microseconds.
  ///   - process: The process of which it is expected; nil for any.
  static func watchdogPause(limit: String?, process: String?, own: Int32) -> Duration? {
    guard let limit = limit.flatMap({ Int64($0) }), limit > 0 else { return nil }
    if let process { guard Int32(process) == own else { return nil } }
    return .microseconds(max(1, limit / 3))
  }
}
