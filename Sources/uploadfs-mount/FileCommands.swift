import ArgumentParser
import FileModel
import Glibc
import Integrity
import MountConfiguration
import UploadEngine

/// Tries files again.
struct RetryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "retry", abstract: "Try to deliver files again now: failed, waiting or cancelled ones.",
    discussion: CommandOptions.discussion)

  @OptionGroup var options: CommandOptions

  @Flag(
    help:
      "Deliver again what counts as delivered and still lies in the spool: for a server that was restored or has lost it."
  )
  var delivered = false

  func run() throws { try options.say(delivered ? .resend : .retry) }
}

/// Ends uploads.
struct CancelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "cancel", abstract: "End the upload of files, also at the server; they stay in the spool.",
    discussion: CommandOptions.discussion)

  @OptionGroup var options: CommandOptions

  func run() throws { try options.say(.cancel) }
}

/// Publishes what is held back.
struct PublishCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "publish",
    abstract: "Publish files as they are that are held back: interrupted ones, and those with temporary names.",
    discussion: CommandOptions.discussion)

  @OptionGroup var options: CommandOptions

  func run() throws { try options.say(.publish) }
}

/// What the three commands have in common: each writes one word to the status of each file.
struct CommandOptions: ParsableArguments {
  static let discussion = """
    A path is relative to the mount, or absolute. Each file is tried; the exit code is that of the first failure: \
    \(ExitStatus.refused.rawValue) when the state of the file does not allow it or the file is not the caller's to \
    change, \(ExitStatus.usage.rawValue) when there is no such file.
    """

  @Argument(help: "A mounted uploadfs.")
  var mountPoint: String

  @Argument(help: ArgumentHelp("Captures' paths in the mount.", valueName: "path"))
  var paths: [String] = []

  @Option(
    help: ArgumentHelp(
      "All captures that the pattern describes, as in rules, and that are in a state for it.", valueName: "pattern"))
  var match: [String] = []

  @Flag(help: "All captures that are in a state for it.")
  var all = false

  @Option(help: ArgumentHelp("For this destination only; without it for all of the file's.", valueName: "name"))
  var destination: String?

  @Flag(help: "Print what became of each file as JSON, one object a line.")
  var json = false

  /// Writes the word to each file's status, and says what became of it.
  func say(_ command: FileCommand) throws {
    try reportingFailures {
      try SettingBytes.check(
        arguments: RawArguments.all, ofMountAt: mountPoint, flags: ["--match", "--destination"])
      let mount = try MountView(mountPoint)
      let name = try destinationName()
      let texts = [command.rawValue, name?.text].compactMap { $0 }
      let order = Array((texts.joined(separator: " ") + "\n").utf8)
      var first: ExitStatus?
      for path in RawArguments.bytes(of: paths, after: mountPoint) + (try matching(command, mount)) {
        do {
          let relative = try mount.relativePath(of: path)
          try mount.write(order, toStatusOf: relative) { code in
            failure(code, command, name, relative, mount)
          }
          told(relative, mount, nil)
        } catch let failure as ToolFailure {
          told(path, mount, failure)
          first = first ?? failure.status
        }
      }
      return first ?? .success
    }
  }

  /// Those that are meant by a pattern, or all.
  private func matching(_ command: FileCommand, _ mount: MountView) throws -> [[UInt8]] {
    guard all || !match.isEmpty else {
      guard !paths.isEmpty else { throw ToolFailure(.usage, "name files, or give --match PATTERN or --all") }
      return []
    }
    let patterns = try match.map { text throws(ToolFailure) in
      do throws(FileRuleProblem) {
        return try Glob(checking: text)
      } catch {
        throw ToolFailure(.usage, "--match: \(error.message)")
      }
    }
    return try mount.statusTexts().filter { file in
      guard all || patterns.contains(where: { $0.matches(file.path) }) else { return false }
      return command.isFor(try FileReading(file.text))
    }.map(\.path.bytes)
  }

  private func destinationName() throws(ToolFailure) -> DestinationName? {
    guard let destination else { return nil }
    guard let name = DestinationName(destination) else {
      throw ToolFailure(.usage, "\(Readable.line(destination)) is no name of a destination")
    }
    return name
  }

  /// One line for each file: for people what it is now, on stderr why not.
  private func told(_ path: [UInt8], _ mount: MountView, _ failure: ToolFailure?) {
    let name = RelativePath(bytes: path)
    let state = reading(of: path, mount)?.state
    if json {
      StandardOutput.line(FileCommandResult(path: name, state: state, failure: failure).line)
    } else if failure == nil {
      StandardOutput.line("\(Readable.line(name.displayText)): \(state ?? "gone")")
    }
    if let failure { StandardError.write("uploadfs-mount: \(failure.message)\n") }
  }

  /// Why the word was not taken. The status says what the file is instead.
  private func failure(
    _ code: Int32, _ command: FileCommand, _ name: DestinationName?, _ path: [UInt8], _ mount: MountView
  ) -> ToolFailure {
    let file = Readable.line(RelativePath(bytes: path).displayText)
    let began = "cannot \(command.rawValue) \(file)"
    let gone = ToolFailure(.refused, "\(began): it is no longer in the spool, or the mount is ending")
    switch code {
    case EINVAL:
      let known = (try? mount.summary())?.destinations?.map(\.name) ?? [DestinationName.main.text]
      if let name, !known.contains(name.text) {
        return ToolFailure(
          .usage, "there is no destination \(name); there is \(known.joined(separator: ", "))")
      }
      let reading = reading(of: path, mount)
      if command == .resend, reading?.state == "complete" {
        return ToolFailure(
          .refused,
          "\(began): nothing is published under the name that it has got since its delivery; give it another one first")
      }
      return ToolFailure(.refused, "\(began): \(reading?.state(at: name) ?? "its state does not allow it")")
    // What is gone has no status that can be written.
    case EACCES where reading(of: path, mount)?.local == false: return gone
    case EROFS, ENOENT: return gone
    case EACCES, EPERM:
      return ToolFailure(.refused, "\(began): only those who can write the file, and root, can do that")
    default:
      return ToolFailure(.refused, "\(began): the decision cannot be kept: \(systemMessage(code))")
    }
  }

  private func reading(of path: [UInt8], _ mount: MountView) -> FileReading? {
    (try? mount.statusText(of: path)).flatMap { try? FileReading($0) }
  }
}

extension FileCommand {
  /// Whether the command does something for a file that was not named.
  fileprivate func isFor(_ file: FileReading) -> Bool {
    let states = [file.state] + (file.destinations ?? []).map(\.state)
    return file.local
      && states.contains { state in
        switch self {
        case .retry: ["failed", "waiting", "cancelled"].contains(state)
        case .resend: state == "complete"
        case .cancel: !["complete", "cancelled", "ignored", "removed"].contains(state)
        case .publish: ["held", "interrupted"].contains(state)
        }
      }
  }
}

extension FileReading {
  /// What a file is, for the user whose command was refused.
  fileprivate func state(at name: DestinationName?) -> String {
    let there = name.flatMap { name in destinations?.first { $0.name == name.text } }
    if let name, destinations != nil, there == nil { return "it does not go to \(name)" }
    let state = there?.state ?? state
    let reason = there.map(\.reason) ?? reason
    // It needs no user.
    if state == "writing" { return "it is still being written; it goes on by itself once it is closed" }
    return "it is \(state)" + (reason.map { ". \(Readable.line($0))" } ?? "")
  }
}

/// A line of `--json`.
struct FileCommandResult {
  var path: RelativePath
  var state: String?
  var failure: ToolFailure?

  /// The object, without line breaks.
  var line: String {
    JSONWriter.line { json in
      json.field("path", path.displayText)
      if !path.isUTF8 { json.field("path_bytes", Hex.encode(path.bytes)) }
      json.field("done", failure == nil)
      json.field("state", state)
      json.field("exit_code", (failure?.status ?? .success).rawValue)
      json.field("error", failure?.message)
    }
  }
}
