import ArgumentParser
import CLinux
import Destinations
import Glibc
import LogText
import MountConfiguration
import UploadEngine
import UploadFS

/// Why a command could not do what it was asked to: one line for people, in which line breaks and control characters of a path are escapes,
/// and a number for scripts.
struct ToolFailure: Error {
  let status: ExitStatus
  let message: String

  init(_ status: ExitStatus, _ message: String) {
    self.status = status
    self.message = Readable.line(message)
  }
}

/// Runs a command's body; a failure becomes one line on stderr and its exit code. What was said is written before it returns, unless
/// its reader takes nothing.
func reportingFailures(_ body: () throws -> ExitStatus) throws {
  let status: ExitStatus
  defer { Output.flush() }
  do {
    status = try body()
  } catch let failure as ToolFailure {
    Output.standardError.put("uploadfs-mount: \(failure.message)\n")
    status = failure.status
  } catch let error as ConfigurationError {
    Output.standardError.put("uploadfs-mount: \(error.message)\n")
    status = .configurationInvalid
  }
  if status != .success { throw ExitCode(status.rawValue) }
}

/// What errno says, for messages.
func systemMessage(_ code: Int32) -> String {
  // strerror(3) is safe to call from several threads in glibc; a translated text is never freed.
  strerror(code).map { String(cString: $0) } ?? "error \(code)"
}

extension ToolFailure {
  /// The failure and exit code for a destination that cannot be set up.
  init(_ error: DestinationError) {
    self.init(error.code == .invalidEnvironment ? .configurationInvalid : .destinationUnusable, error.message)
  }

  /// The failure and exit code for a mount that could not be made.
  init(_ error: MountError) {
    let status: ExitStatus =
      switch error.kind {
      case .mountPointMissing, .mountPointNotDirectory, .deadMountNotRemovable: .mountPointUnusable
      case .mountPointNotEmpty: .mountPointNotEmpty
      case .deviceMissing, .noPermission, .fusermountMissing: .fuseUnavailable
      case .spoolUnusable, .spoolInsideMount: .spoolUnusable
      case .system: .internalError
      }
    self.init(status, error.message)
  }
}

/// Unbuffered output of commands for people, which waits for its reader and loses nothing; a closed terminal is no failure. What must
/// not wait is left to ``Output``.
enum StandardError {
  static func write(_ text: String) { Unbuffered.write(text, to: STDERR_FILENO) }
}

/// The same for programs, which get each line at once.
enum StandardOutput {
  static func line(_ text: String) { Unbuffered.write("\(text)\n", to: STDOUT_FILENO) }
}

private enum Unbuffered {
  static func write(_ text: String, to descriptor: Int32) {
    let bytes = Array(text.utf8)
    _ = uploadfs_write_all(descriptor, bytes, bytes.count)
  }
}
