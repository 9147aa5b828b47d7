/// Which files of the spool the kernel may read and write by itself, past the daemon.
public enum Passthrough: String, CaseIterable, Sendable {
  case off
  /// Those that are only read, while they have no writer.
  case read
  /// Those as well that are written and sent only once they are closed.
  case on
}
