import FileModel

/// Whether the destination takes the credentials, as a request of their own has shown before there was a capture.
struct CredentialTrial: Sendable {
  /// The question, while it is under way.
  private var request: HTTPRequestID?
  /// They are not taken, and no request has been taken since.
  private(set) var failure: FileStatus.Failure?

  mutating func begin(with request: HTTPRequestID) { self.request = request }

  /// True for the answer to the question, once.
  mutating func end(_ request: HTTPRequestID) -> Bool {
    guard request == self.request else { return false }
    self.request = nil
    return true
  }

  mutating func refused(_ failure: FileStatus.Failure) { self.failure = failure }

  /// A request was taken, whatever it was for.
  mutating func proved() { failure = nil }
}
