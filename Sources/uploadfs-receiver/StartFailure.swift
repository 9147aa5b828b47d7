import ArgumentParser
import LogText
import UploadReceiver

/// Why the tool ends before it serves: a number for scripts and a line for people.
struct StartFailure: Error {
  /// The exit codes; docs/receiver.md lists them.
  enum Code: Int32 {
    case other = 1
    case cannotListen = 20
    case certificateUnusable = 21
    case rootUnusable = 22
    case tokenFileUnusable = 23
    case noReceiver = 24
  }

  var code: Code
  var line: String

  init(_ code: Code, _ line: String) {
    self.code = code
    self.line = line
  }

  init(_ error: ReceiverStartError) {
    switch error {
    case .listen(let words):
      self.init(.cannotListen, "cannot listen: \(words). Choose another --listen, or end what listens there.")
    case .certificate(let words):
      self.init(.certificateUnusable, "\(words). Check --certificate and --key: PEM, the key of this certificate.")
    case .root(let words):
      self.init(.rootUnusable, "the root cannot be used: \(words). Check --root: a folder that this user may write to.")
    case .credentialRoot(let words):
      self.init(.tokenFileUnusable, "a token's root cannot be used: \(words).")
    }
  }

  init(_ error: OperatorError, root: String) {
    switch error {
    case .noReceiver:
      self.init(.noReceiver, "no receiver runs on \(root). Check --root, or start one: uploadfs-receiver serve.")
    case .failed(let words):
      self.init(.noReceiver, "the receiver of \(root) cannot be asked: \(words). Be its user, or root.")
    }
  }

  /// Says it and gives the error that makes the argument parser end with the code.
  func exit() -> ExitCode {
    Output.standardError.put("uploadfs-receiver: \(line)\n")
    Output.flush()
    return ExitCode(code.rawValue)
  }
}
