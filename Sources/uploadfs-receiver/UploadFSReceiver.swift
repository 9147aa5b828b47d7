import ArgumentParser
import CLinux

/// The tool: arguments, files, signals and exit codes. Everything else is UploadReceiver's.
struct UploadFSReceiver: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "uploadfs-receiver",
    abstract: "Receives uploads of uploadfs-mount, verified and published atomically.",
    version: "0.1.0",
    subcommands: [Serve.self, Sessions.self, End.self])
}

@main
enum Program {
  static func main() async {
    uploadfs_open_standard_descriptors()
    await UploadFSReceiver.main()
  }
}
