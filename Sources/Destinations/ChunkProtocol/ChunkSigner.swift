import Integrity
import Synchronization
public import TransferModel

/// The credential that the requests of a receiver's client are made with: their tokens are replaced in the transport where it is
/// renewed. The MACs of their chunks stay those of this one: a receiver knows the tokens that a user had. One that it never
/// accepted it does not know.
public final class ChunkSigner: Sendable {
  private struct State {
    var authorization: String?
    var masterKey: [UInt8]

    init(_ credential: Credential?) {
      authorization = credential?.authorization
      masterKey = ChunkMAC.masterKey(credentialSecret: credential?.secret ?? [])
    }
  }

  private let state: Mutex<State>

  init(_ credential: Credential?) { state = Mutex(State(credential)) }

  /// The one that a destination's requests are made with; nil where they follow from nothing but their `Authorization`.
  public static func of(_ destination: any Destination) -> ChunkSigner? {
    (destination as? ChunkProtocolDestination)?.signer
  }

  var present: (authorization: String?, masterKey: [UInt8]) {
    state.withLock { ($0.authorization, $0.masterKey) }
  }

  /// Requests are made with this one from now on.
  public func replace(by credential: Credential) { state.withLock { $0 = State(credential) } }
}
