import Synchronization

/// What one run knows of a server and of its uploads.
///
/// An upload that ends in the middle of a chunk can only be continued by who knows what was begun there: after a change of
/// the file, or by another run, it could be the beginning of other bytes.
final class TusMemory: Sendable {
  /// What may be behind an offset of an upload that is acknowledged.
  private enum Begun: Hashable {
    case nothing
    /// The beginning of the bytes with this SHA-256.
    case bytes([UInt8])
    case unknown
  }

  private struct State {
    var features: TusFeatures?
    var refusesDeferredLength = false
    var uploads: [String: Upload] = [:]
    var commits: [String: Commit] = [:]
  }

  /// What is known of the last commit of a session.
  private struct Commit {
    /// What an earlier attempt has joined; this one looks at it first.
    var earlier: TusJoined?
    /// What was joined, of which it is not known that it is complete.
    var joined: TusJoined?
    /// Parts are being joined, and with the answer they are a file.
    var isJoining = false
  }

  private struct Upload {
    /// Everything before it is acknowledged.
    var offset: UInt64
    var begun = Begun.nothing
    /// What was acknowledged last, so that the same answers mean the same when they are looked at again.
    var last: Bytes?
  }

  private struct Bytes: Hashable {
    var offset: UInt64
    var sha256: [UInt8]
  }

  /// Beyond it all is forgotten, and what ends in the middle of a chunk begins anew.
  private static let uploadsMax = 4096

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

  /// The upload ends exactly here.
  func ends(_ upload: String, at offset: UInt64) {
    state.withLock {
      if $0.uploads.count >= Self.uploadsMax { $0.uploads = [:] }
      $0.uploads[upload] = Upload(offset: offset)
    }
  }

  /// These bytes are acknowledged, and nothing is behind them.
  func holds(_ upload: String, from start: UInt64, to end: UInt64, sha256: [UInt8]) {
    ends(upload, at: end)
    state.withLock { $0.uploads[upload]?.last = Bytes(offset: start, sha256: sha256) }
  }

  /// These bytes are sent to this offset.
  func begins(_ upload: String, at offset: UInt64, sha256: [UInt8]) {
    state.withLock {
      let known = $0.uploads[upload]
      let isKnown = known?.offset == offset && (known?.begun == .nothing || known?.begun == .bytes(sha256))
      $0.uploads[upload] = Upload(offset: offset, begun: isKnown ? .bytes(sha256) : .unknown)
    }
  }

  /// Whatever is behind this offset is the beginning of these bytes.
  func hasOnly(_ upload: String, at offset: UInt64, sha256: [UInt8]) -> Bool {
    state.withLock {
      guard let known = $0.uploads[upload] else { return false }
      return known.offset == offset && known.begun == .bytes(sha256)
        || known.last == Bytes(offset: offset, sha256: sha256)
    }
  }

  func forget(_ upload: String) {
    state.withLock { _ = $0.uploads.removeValue(forKey: upload) }
  }

  // MARK: - Commits

  /// A commit begins, or is tried again. What was joined for another content or another name is not its business.
  func beginsCommit(of session: String, _ request: TusJoined.Request) {
    state.withLock {
      if $0.commits.count >= Self.uploadsMax { $0.commits = [:] }
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
