import ArgumentParser
import CLinux
import Glibc
import Integrity
import LogText
import ProgramVersion

/// The tool: arguments, files, signals and exit codes. Everything else is UploadReceiver's.
struct UploadFSReceiver: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "uploadfs-receiver",
    abstract: "Receives uploads of uploadfs-mount, verified and published atomically.",
    version: ProgramVersion.text(of: "uploadfs-receiver", libraries: IntegrityLibraries.versions),
    subcommands: [Serve.self, Sessions.self, End.self])
}

@main
enum Program {
  static func main() async {
    uploadfs_open_standard_descriptors()
    // It would look like no arguments, to which help is an answer, and all is well.
    guard access("/proc/self/cmdline", R_OK) == 0 else {
      Output.standardError.put(
        "uploadfs-receiver: /proc is not there, and with it the command line; mount it: mount -t proc proc /proc\n")
      Output.flush()
      _exit(EXIT_FAILURE)
    }
    await UploadFSReceiver.main()
  }
}
