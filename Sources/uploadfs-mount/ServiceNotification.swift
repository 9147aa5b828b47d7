import LogText

/// Tells the service manager how the daemon is doing (sd_notify(3)).
enum ServiceNotification {
  static func ready(status: String) { Output.notifications.put("READY=1\nSTATUS=\(status)\n") }
  static func stopping(status: String) { Output.notifications.put("STOPPING=1\nSTATUS=\(status)\n") }
  static func status(_ status: String) { Output.notifications.show("STATUS=\(status)\n") }
}
