public import Dispatch
import Glibc
import Logging

/// What the program says while it works: its log, how far it is, and what a service manager is told. All of it is left for one
/// thread, so nothing that works waits for its reader.
public enum Output {
  /// Started with the first text: signals are blocked before.
  private static let thread = OutputThread([
    (StandardDescriptor(STDERR_FILENO), isatty(STDERR_FILENO) == 1 ? .terminal : .lines),
    (StandardDescriptor(STDOUT_FILENO), .lines),
    (NotificationSocket(getenv("NOTIFY_SOCKET").map { String(cString: $0) }), .datagrams),
  ])

  /// The log, messages, and how far things are.
  public static var standardError: OutputChannel { thread.channels[0] }

  /// For programs that wait for a line.
  public static var standardOutput: OutputChannel { thread.channels[1] }

  /// For the service manager.
  public static var notifications: OutputChannel { thread.channels[2] }

  /// Called before each end of the process: what was said before is written, unless that takes longer than a second.
  public static func flush(within limit: DispatchTimeInterval = .seconds(1)) { thread.flush(within: limit) }

  /// Writes a log to stderr, with all that an event says in one visible line.
  public static func logHandler(label: String) -> EscapingLogHandler {
    EscapingLogHandler(StreamLogHandler(label: label, stream: Stream()))
  }

  private struct Stream: TextOutputStream {
    func write(_ string: String) { standardError.put(string) }
  }
}
