import Glibc

/// How the receiver shares what it may have open: one that accepts connections until there is no descriptor left can store nothing, and is
/// called again and again for a connection that it cannot take. Pure.
struct DescriptorShares: Hashable, Sendable {
  /// For event loops, the state, the log, publications and whatever else is opened for a moment.
  static let reserve = 48
  /// What a receiver needs, as measured (docs/configuration.md): for one mount, for two, and for each further one.
  static let needed = (oneMount: 64, twoMounts: 128, furtherMount: 32)
  /// Of an upload: its data, its journal, and the file that it becomes.
  static let perSession = 3
  /// Of a file that is published with others: itself, and its folder with those above it.
  static let perPublication = 4

  /// Connections beyond these wait in the backlog. One mount has 12.
  let connections: Int
  /// Uploads whose files are kept open; half as many others may wait for their sync.
  let sessions: Int
  /// Files that are published together.
  let publications: Int

  /// Of a process that may have so many.
  init(limit: Int) {
    let eighth = max(0, limit - DescriptorShares.reserve) / 8
    connections = max(16, min(4096, 3 * eighth))
    sessions = max(2, min(256, 3 * eighth / DescriptorShares.perSession * 2 / 3))
    publications = max(
      1, min(PublicationQueue.batchFilesMax, 2 * eighth / (DescriptorShares.perPublication * PublicationQueue.jobsMax)))
  }

  /// What this process may have open.
  static var limit: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
    return Int(clamping: limit.rlim_cur)
  }

  /// What is wrong where a process may have so many; nil where they are enough for two mounts.
  static func shortageMessage(of limit: Int) -> String? {
    guard limit < needed.twoMounts else { return nil }
    let connections = DescriptorShares(limit: limit).connections
    return
      "this process may have \(limit) files open, and takes \(connections) connections; for one mount it needs \(needed.oneMount), for two \(needed.twoMounts), and \(needed.furtherMount) for each further one (ulimit -Hn, LimitNOFILE=)"
  }
}
