import ArgumentParser
import LogText
import MountConfiguration
import UploadEngine
import Quantities

/// Waits until everything that was written before the call is acknowledged.
struct WaitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "wait", abstract: "Wait until everything written so far is acknowledged by the server.",
    discussion: "Ends with \(ExitStatus.filesFailed.rawValue) if files have failed; their names are on stderr.")

  @Argument(help: "A mounted uploadfs.")
  var mountPoint: String

  @Option(help: ArgumentHelp("Give up after this long.", valueName: "seconds"))
  var timeout: TimeLimit?

  func run() throws {
    try reportingFailures {
      try SettingBytes.check(arguments: RawArguments.all, ofMountAt: mountPoint, flags: ["--timeout"])
      let limit = CommandLimit(timeout, of: mountPoint)
      let mount = try MountView(mountPoint)
      let watch = try mount.watchSummary()
      var summary = try watch.read()
      // Files from before the start get their numbers as they are found: until all are, it is unknown what to wait for.
      var goal = summary.scanned ? summary.changeSequences : nil
      while !summary.hasDelivered(everythingUpTo: goal) {
        let left = limit.left ?? .seconds(1)
        guard left > .zero else { throw timedOut(summary) }
        summary = try watch.next(within: min(left, .seconds(1)))
        if goal == nil, summary.scanned { goal = summary.changeSequences }
      }
      return try outcome(summary, of: mount)
    }
  }

  private func outcome(_ summary: SummaryReading, of mount: MountView) throws(ToolFailure) -> ExitStatus {
    if summary.count("held") > 0 {
      Output.standardError.put(
        "uploadfs-mount: \(Readable.count(summary.count("held"), "file")) held back, not waited for\n")
    }
    guard summary.failedCount == 0 else {
      throw ToolFailure(.filesFailed, summary.failureSentence + reason(of: summary, in: mount))
    }
    return .success
  }

  /// Why the first of the files was not delivered; empty where its status has gone meanwhile.
  private func reason(of summary: SummaryReading, in mount: MountView) -> String {
    guard let path = summary.failedPaths.first, let text = try? mount.statusText(of: Array(path.utf8)),
      let failure = try? FileReading(text).lastError
    else { return "" }
    return "; of \(Readable.line(path)): \(Readable.line(failure.message))"
  }

  private func timedOut(_ summary: SummaryReading) -> ToolFailure {
    let why = summary.lastError.map { "; \(Readable.line($0.message))" } ?? ""
    return ToolFailure(
      .timedOut,
      "timed out with \(Readable.count(summary.unfinished, "file")) and \(Readable.bytes(summary.bytes.pending)) to go"
        + why)
  }
}

/// A duration on the command line: seconds, or a number with a unit.
struct TimeLimit: ExpressibleByArgument {
  var duration: Duration

  init?(argument: String) {
    guard let duration = Units.duration(argument) else { return nil }
    self.duration = duration
  }
}

extension SummaryReading {
  /// True once no change up to these numbers is on its way any more; never while they are not known. Failed files are
  /// not on their way.
  func hasDelivered(everythingUpTo sequences: [UInt64]?) -> Bool {
    guard scanned, let sequences else { return false }
    let oldest = destinations.map { $0.map(\.oldestPendingSequence) } ?? [oldestPendingSequence]
    return zip(sequences, oldest).allSatisfy { sequence, oldest in oldest.map { $0 > sequence } ?? true }
  }

  /// The last change at each destination.
  var changeSequences: [UInt64] { destinations.map { $0.map(\.changeSequence) } ?? [changeSequence] }

  /// Files that need a user's help.
  var failedCount: Int { undeliveredFiles ?? count("failed") + count("interrupted") }

  /// Which files failed.
  var failureSentence: String {
    let names = failedPaths.prefix(10).map(Readable.line).joined(separator: ", ")
    let more = failedCount > 10 ? ", …" : ""
    return "\(Readable.count(failedCount, "file")) failed or held back, kept in the spool: \(names)\(more); "
      + "why is in status/NAME.json"
  }
}
