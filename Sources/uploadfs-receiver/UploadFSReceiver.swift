import ArgumentParser

/// The tool: arguments, files, signals and exit codes. Everything else is UploadReceiver's.
@main
struct UploadFSReceiver: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "uploadfs-receiver",
    abstract: "Receives uploads of uploadfs-mount, verified and published atomically.",
    version: "0.1.0",
    subcommands: [Serve.self, Sessions.self, End.self])
}
