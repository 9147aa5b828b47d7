import ArgumentParser
import MountConfiguration

/// The command line.
@main
struct UploadFSMount: ParsableCommand {
  static let version = "0.1.0"

  static let configuration = CommandConfiguration(
    commandName: "uploadfs-mount",
    abstract: "A folder that uploads what is written into it.",
    discussion: """
      A capture that is closed in the mount is uploaded, verified and published; status/NAME.json in the mount tells \
      how far it is.

      EXIT CODES:
      \(ExitStatus.table)
      """,
    version: version,
    subcommands: [
      MountCommand.self, StatusCommand.self, WaitCommand.self, RetryCommand.self, CancelCommand.self,
      PublishCommand.self,
      UnmountCommand.self, DoctorCommand.self,
    ])

  /// What the argument parser would say of a misspelt command is about what follows it.
  static func main() {
    let words = Array(CommandLine.arguments.dropFirst())
    let known = configuration.subcommands.map { $0._commandName } + ["help"]
    if let word = words.first, !word.hasPrefix("-"), !known.contains(word) {
      StandardError.write("uploadfs-mount: \(Misspelling(word, of: known).sentence)\n")
      exit(withError: ExitCode(ExitStatus.usage.rawValue))
    }
    main(words)
  }
}
