import Lookup
import Synchronization

/// What one run knows of the checksums that a server keeps. Objects and multipart uploads are asked for separately: servers
/// know them for one and not for the other.
///
/// A server is asked by its first requests: these carry a checksum, and its answer says whether it was kept. Until it is known,
/// the requests that were sent with one are remembered, so that their answers are understood.
final class S3ChecksumMemory: Sendable {
  enum Kind: Hashable {
    case object
    case upload
  }

  private struct State {
    var known: LookupTable<Kind, S3Options.Checksum> = [:]
    /// By their nonces.
    var trials: LookupSet<[UInt8]> = []
  }

  /// The one that is asked for: every part's bytes are hashed with it already, and the servers that keep any know it.
  static let wanted = S3Options.Checksum.crc32c

  /// Beyond it, what is asked is forgotten: answers count as those of requests without a checksum.
  private static let trialsMax = 4096

  private let state = Mutex(State())

  /// What a request is to carry.
  func choice(for kind: Kind, nonce: [UInt8]) -> S3Options.Checksum {
    state.withLock { state in
      if let known = state.known[kind] { return known }
      if state.trials.count >= Self.trialsMax { state.trials = [] }
      state.trials.insert(nonce)
      return Self.wanted
    }
  }

  /// The request went out with a checksum before it was known what becomes of it.
  func isTrial(_ nonce: [UInt8]) -> Bool { state.withLock { $0.trials.contains(nonce) } }

  func learn(_ kind: Kind, _ checksum: S3Options.Checksum) { state.withLock { $0.known[kind] = checksum } }
}
