import Destinations
import FoundationEssentials
import Glibc
import MountConfiguration

/// Credentials in the environment of this process, in files, and from commands.
struct MachineCredentials: CredentialPlaces {
  private let environment = ProcessInfo.processInfo.environment

  func variable(_ name: String) -> String? { environment[name] }

  func check(variables names: [String]) throws(DestinationError) {
    do {
      try SettingBytes.check(variables: names, RawArguments.variable)
    } catch {
      throw DestinationError(.invalidEnvironment, error.message)
    }
  }

  func text(
    ofFile path: String, called what: String, isSecret: (_ text: String) -> Bool
  ) throws(DestinationError) -> String {
    do throws(ToolFailure) {
      return try Self.text(path, what, isSecret)
    } catch {
      throw DestinationError(.invalidCredential, error.message)
    }
  }

  func output(of command: String, called name: String) throws(DestinationError) -> [UInt8] {
    do throws(ToolFailure) {
      return try CommandOutput.of(command, called: name)
    } catch {
      throw DestinationError(.invalidCredential, error.message)
    }
  }

  private static func text(
    _ path: String, _ what: String, _ isSecret: (String) -> Bool
  ) throws(ToolFailure) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    let text: String
    do throws(SystemError) {
      guard descriptor >= 0 else { throw SystemError.last }
      text = String(decoding: try WholeFile.read(descriptor, bytesMax: 1 << 20), as: UTF8.self)
    } catch {
      if descriptor >= 0 { close(descriptor) }
      guard error.code != ENOENT, error.code != ENOTDIR else { return "" }
      throw ToolFailure(.destinationUnusable, "the file \(path) cannot be read: \(systemMessage(error.code))")
    }
    defer { close(descriptor) }
    if isSecret(text) { try SecretFile.check(descriptor, path, what: what) }
    return text
  }
}
