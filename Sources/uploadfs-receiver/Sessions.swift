import ArgumentParser
import UploadReceiver

/// `uploadfs-receiver sessions`.
struct Sessions: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "List the uploads of a running receiver that are not published.",
    discussion: """
      Those first that were left alone for longest. Kept are those whose client may have given up its own copy: they end when they \
      are delivered, or by "uploadfs-receiver end".
      """)

  @Option(help: ArgumentHelp("The folder of the receiver's state.", valueName: "DIR"))
  var root: String

  @Flag(help: "As JSON.")
  var json = false

  func validate() throws { try RawArguments.check() }

  func run() throws {
    do throws(OperatorError) {
      let client = OperatorClient(root: root)
      if json { return say(try client.sessionsAsJSON()) }
      for session in try client.sessions() { say(session.line) }
    } catch {
      throw StartFailure(error, root: root).exit()
    }
  }
}

/// `uploadfs-receiver end`.
struct End: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "End uploads of machines that are gone; what they hold is deleted.",
    discussion: "For a running receiver. A client that is still there sends its file anew, if it has it.")

  @Option(help: ArgumentHelp("The folder of the receiver's state.", valueName: "DIR"))
  var root: String

  @Argument(help: ArgumentHelp("As \"uploadfs-receiver sessions\" names them.", valueName: "SESSION"))
  var sessions: [String]

  func validate() throws {
    try RawArguments.check()
    guard !sessions.isEmpty else { throw ValidationError("Name at least one session.") }
    guard sessions.allSatisfy({ $0.utf8.allSatisfy { (0x21...0x7e).contains($0) } }) else {
      throw ValidationError("The name of a session has hexadecimal digits only.")
    }
  }

  func run() throws {
    let endings: [OperatorEnding]
    do throws(OperatorError) {
      endings = try OperatorClient(root: root).end(sessions)
    } catch {
      throw StartFailure(error, root: root).exit()
    }
    for ending in endings { say("\(ending.id): \(ending.refusal ?? "ended")") }
    if endings.contains(where: { $0.refusal != nil }) { throw ExitCode.failure }
  }
}

extension OperatorListing {
  /// For people: one line, without anything that could disturb a terminal.
  fileprivate var line: String {
    let days = idleSeconds / 86_400
    let idle = days > 1 ? "\(days) d" : idleSeconds >= 7200 ? "\(idleSeconds / 3600) h" : "\(idleSeconds) s"
    let parts = [
      id, name.map(\.debugDescription) ?? "-", "held \(heldBytes)", size.map { "of \($0) bytes" } ?? "bytes",
      "idle \(idle)", root.map { "in \($0)" }, user.map { "of user \($0)" }, mayHoldOnlyCopy ? "kept" : nil,
      trouble.map { "damaged: \($0.debugDescription)" },
    ]
    return parts.compactMap(\.self).joined(separator: "  ")
  }
}
