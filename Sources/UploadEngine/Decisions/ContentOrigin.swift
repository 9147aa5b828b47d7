/// What earlier runs may have done with the present content, as far as nothing here records it.
struct ContentOrigin: Hashable, Sendable {
  /// An earlier run may have been sending the present content when it ended, and that may still be published.
  private(set) var isOfEarlierRun = false
  /// The scan has found the file, and nothing here knows of a delivery or of an earlier content: the server may have it.
  private(set) var mayBeAtServer = false

  mutating func found(mayBeAtServer: Bool) { self.mayBeAtServer = mayBeAtServer }

  /// An earlier run may have been sending it.
  mutating func mayHaveBeenSent() { isOfEarlierRun = true }

  /// The server has said what it has of the file.
  mutating func serverReported() { mayBeAtServer = false }

  /// The content is of this run.
  mutating func contentChanged() { self = ContentOrigin() }
}
