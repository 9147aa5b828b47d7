import Lookup
import Synchronization

/// What one run knows of a server and of its uploads.
final class TusMemory: Sendable {
  private struct State {
    var features: TusFeatures?
    var refusesDeferredLength = false
    var commits: LookupTable<String, Commit> = [:]
    /// How often the parts of a session were gone when they were to be joined.
    var losses: LookupTable<String, Int> = [:]
    var losesParts = false
  }

  /// What is known of the last commit of a session.
  private struct Commit {
    /// What an earlier attempt has joined; this one probes it first.
    var earlier: TusJoined?
    /// What was joined, of which it is not known that it is complete.
    var joined: TusJoined?
    /// Parts are being joined, and with the answer they are a file.
    var isJoining = false
    /// Parts of it are gone.
    var hasLost = false
  }

  /// Beyond it all is forgotten.
  private static let commitsMax = 4096

  /// What ends in the middle of a chunk.
  let uploads = UploadMemory()

  private let state = Mutex(State())

  var features: TusFeatures? {
    get { state.withLock { $0.features } }
    set { state.withLock { $0.features = newValue } }
  }

  /// The server takes no bytes before it knows the length, whatever it announces.
  var refusesDeferredLength: Bool {
    get { state.withLock { $0.refusesDeferredLength } }
    set { state.withLock { $0.refusesDeferredLength = newValue } }
  }

  /// The server does not keep the parts of one file until they are joined, whatever it announces.
  var losesParts: Bool { state.withLock { $0.losesParts } }

  // MARK: - Commits

  /// Parts of a session were gone when they were to be joined. Once that may be an accident, or their age. The answers of one
  /// attempt may be checked more than once.
  func lostParts(of session: String) {
    state.withLock {
      guard $0.commits[session]?.hasLost == false else { return }
      $0.commits[session]?.hasLost = true
      if $0.losses.count >= Self.commitsMax { $0.losses = [:] }
      let losses = ($0.losses[session] ?? 0) + 1
      $0.losses[session] = losses
      if losses > 1 { $0.losesParts = true }
    }
  }

  /// The server has given several parts one address.
  func confusesParts() { state.withLock { $0.losesParts = true } }

  /// A commit begins, or is tried again. What was joined for another content or another name is not its business.
  func beginsCommit(of session: String, _ request: TusJoined.Request) {
    state.withLock {
      if $0.commits.count >= Self.commitsMax { $0.commits = [:] }
      let joined = $0.commits[session]?.joined.flatMap { $0.request == request ? $0 : nil }
      $0.commits[session] = Commit(earlier: joined, joined: joined)
    }
  }

  /// What an earlier attempt at this commit has joined; the same as long as this attempt lasts.
  func joinedEarlier(of session: String) -> TusJoined? { state.withLock { $0.commits[session]?.earlier } }

  /// The upload exists, and is not complete yet.
  func hasJoined(_ joined: TusJoined, of session: String) {
    state.withLock { $0.commits[session]?.joined = joined }
  }

  /// What was joined and may not be complete.
  func joined(of session: String) -> TusJoined? { state.withLock { $0.commits[session]?.joined } }

  /// The request goes out that makes a file of the parts, or its answer is there.
  func isJoining(_ isJoining: Bool, _ session: String) {
    state.withLock { $0.commits[session]?.isJoining = isJoining }
  }

  /// No answer has come yet to the request that makes a file of the parts.
  func isJoining(_ session: String) -> Bool { state.withLock { $0.commits[session]?.isJoining ?? false } }

  func forgetCommit(of session: String) {
    state.withLock { _ = $0.commits.removeValue(forKey: session) }
  }
}
