import Lookup
import OrderedCollections
import Synchronization

/// What one run knows of the conditions that a server keeps, and of the numbers that names have got. Objects that are put and uploads
/// that are completed are told apart: Ceph 16 keeps the condition of the one and ignores that of the other.
///
/// Steps are answered in several requests, and what is known may change between two of them: what a step began with is kept under
/// its nonce.
final class S3NameMemory: Sendable {
  /// What a condition is attached to.
  enum Kind: Hashable {
    case opening
    case object
    case completion
  }

  /// What becomes of a condition.
  enum Word {
    case unknown
    case kept
    case ignored
    /// The server does not take requests that have one.
    case refused
  }

  /// What a step begins with.
  struct Beginning: Hashable {
    /// The key is asked for before anything is sent.
    var probes = true
    var sendsConditions = true
    /// An object that was put is put once more, to see whether the server keeps the condition.
    var isTrial = false
    /// The first number that a name is tried with.
    var number = 2
  }

  private struct Step: Hashable {
    var kind: Kind
    var nonce: [UInt8]
  }

  private struct State {
    var words: LookupTable<Kind, Word> = [:]
    /// One at a time.
    var trial: [UInt8]?
    var beginnings: OrderedDictionary<Step, Beginning> = [:]
    /// Names by their bytes, and the number behind the last one that was given.
    var numbers: OrderedDictionary<[UInt8], Int> = [:]
  }

  /// Far more than there are requests in flight.
  private static let beginningsMax = 4096
  private static let numbersMax = 4096

  private let state: Mutex<State>

  /// Where it is documented that conditions are kept, nothing has to be found out.
  init(keepsConditions: Bool) {
    var state = State()
    if keepsConditions { state.words = [.object: .kept, .completion: .kept] }
    self.state = Mutex(state)
  }

  func begin(_ kind: Kind, _ nonce: [UInt8], name: String, hasEarlier: Bool, mayTry: Bool = false) {
    state.withLock { state in
      let word = state.words[kind] ?? .unknown
      var beginning = Beginning()
      beginning.probes = word != .kept || hasEarlier
      beginning.sendsConditions = word != .refused
      beginning.number = state.numbers[Array(name.utf8)] ?? 2
      if kind == .object, word == .unknown, mayTry, state.trial == nil || state.trial == nonce {
        beginning.isTrial = true
        state.trial = nonce
      }
      if state.beginnings.count >= Self.beginningsMax { state.beginnings.removeFirst(Self.beginningsMax / 2) }
      state.beginnings[Step(kind: kind, nonce: nonce)] = beginning
    }
  }

  func beginning(of kind: Kind, _ nonce: [UInt8]) -> Beginning {
    state.withLock { $0.beginnings[Step(kind: kind, nonce: nonce)] ?? Beginning() }
  }

  /// Once it is known that conditions are not kept, no 412 shows any more that they are. True where this is news.
  func learn(_ kind: Kind, _ word: Word) -> Bool {
    state.withLock { state in
      let known = state.words[kind] ?? .unknown
      guard word != known, word != .kept || known == .unknown else { return false }
      state.words[kind] = word
      return true
    }
  }

  /// The request is over; another one may try where it has found out nothing.
  func ended(_ nonce: [UInt8]) {
    state.withLock { if $0.trial == nonce { $0.trial = nil } }
  }

  /// A name has got a number.
  func used(_ number: Int, of name: String) {
    state.withLock { state in
      let key = Array(name.utf8)
      if state.numbers.count >= Self.numbersMax { state.numbers.removeFirst(Self.numbersMax / 2) }
      state.numbers[key] = max(state.numbers[key] ?? 0, number + 1)
    }
  }
}
