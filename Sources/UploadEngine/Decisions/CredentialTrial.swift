import FileModel
import TransferModel

/// Whether the destination accepts the credentials, as a request of its own has shown before there was a capture.
struct CredentialTrial: Sendable {
  /// The request, while it is in flight.
  private var request: HTTPRequestID?
  /// The credentials are refused, and no request has succeeded since.
  private(set) var failure: FileStatus.Failure?

  mutating func begin(with request: HTTPRequestID) { self.request = request }

  /// True for the answer to the trial request, once.
  mutating func end(_ request: HTTPRequestID) -> Bool {
    guard request == self.request else { return false }
    self.request = nil
    return true
  }

  mutating func refused(_ failure: FileStatus.Failure) { self.failure = failure }

  /// A request has succeeded, whatever it was for.
  mutating func proved() { failure = nil }
}
