import ArgumentParser
import CLinux
import CurlTransport
import Glibc
import Integrity
import MountConfiguration
import ProgramVersion
import UploadEngine
import UploadFS

@main
struct UploadFSMount: ParsableCommand {
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

  private static var version: String {
    ProgramVersion.text(
      of: "uploadfs-mount",
      libraries: [CurlLibrary.version, "libfuse \(FuseSupport.loadedVersion)", DatabaseLibrary.version]
        + IntegrityLibraries.versions)
  }

  /// What the argument parser would say of a misspelt command is about what follows it.
  static func main() {
    uploadfs_open_standard_descriptors()
    // It would look like no arguments, to which help is an answer, and all is well.
    guard access("/proc/self/cmdline", R_OK) == 0 else {
      StandardError.write(
        "uploadfs-mount: /proc is not there, and with it the command line; mount it: mount -t proc proc /proc\n")
      exit(withError: ExitCode(ExitStatus.internalError.rawValue))
    }
    let words = Array(CommandLine.arguments.dropFirst())
    let known = configuration.subcommands.map { $0._commandName } + ["help"]
    if let word = words.first, !word.hasPrefix("-"), !known.contains(word) {
      StandardError.write("uploadfs-mount: \(Misspelling(word, of: known).sentence)\n")
      exit(withError: ExitCode(ExitStatus.usage.rawValue))
    }
    do {
      var command = try parseAsRoot(words)
      try command.run()
    } catch {
      guard let text = explanation(of: error, in: words.first) else { exit(withError: error) }
      StandardError.write(text)
      exit(withError: ExitCode(ExitStatus.usage.rawValue))
    }
  }

  /// What the argument parser says of an option that there is not, with the one that was meant: that one compares whole names, and
  /// calls “--to” the nearest to each short one. Nil for any other error.
  private static func explanation(of error: any Error, in command: String?) -> String? {
    let text = fullMessage(for: error)
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let quoted = lines.first?.split(separator: "'") ?? []
    guard quoted.count > 1, quoted[0] == "Error: Unknown option ", quoted[1].hasPrefix("--"),
      let type = configuration.subcommands.first(where: { $0._commandName == command })
    else { return nil }
    let words = helpMessage(for: type).split { $0.isWhitespace || "[](),/=".contains($0) }
    let options = words.filter { $0.hasPrefix("--") }.map { String($0.dropFirst(2)) }
    let hint = nearestName(to: String(quoted[1].dropFirst(2)), among: options).map { " Did you mean '--\($0)'?" } ?? ""
    let first = "Error: Unknown option '\(quoted[1])'.\(hint)"
    return ([first] + lines.dropFirst().map(String.init)).joined(separator: "\n") + "\n"
  }
}
