import Integrity
import Lookup
import OrderedCollections
import Synchronization

/// What one run knows of a WebDAV server: which folders there are, what it keeps, and what was sent and not published yet.
///
/// A file takes several requests, and what is known may change between two of them: what it began with is kept under its nonce.
final class WebDAVMemory: Sendable {
  /// What was sent whole under its temporary name.
  struct Sent: Hashable {
    /// Nil until the server has said what it has there.
    var resource: WebDAVResource?
    var contentSHA256: Digest32?
    var merkleRoot: Digest32
    var chainTip: Digest32
    /// The name that the file was to have, and the one that was asked for last; the answer may never have come.
    var wanted: String
    var name: String?
  }

  /// What a file begins with.
  struct Beginning: Hashable {
    var knowsFolder = false
    /// The server may keep the mark of an upload.
    var marks = true
    /// It may keep conditions on the ETag of what is replaced.
    var sendsConditions = true
    var nameForm = WebDAVNameForm.path
    /// The first number that a name is tried with.
    var number = 2
    var sent: Sent?
    var temporaryName = ""
    /// Temporary names at which something of earlier tries may lie.
    var leftovers: [String] = []
  }

  private struct State {
    var folders: OrderedSet<[UInt8]> = []
    var marks = true
    var sendsConditions = true
    var nameForm = WebDAVNameForm.path
    var beginnings: OrderedDictionary<[UInt8], Beginning> = [:]
    /// Those of files without a request in flight, the earliest end first.
    var ended: OrderedSet<[UInt8]> = []
    var sent: OrderedDictionary<[UInt8], Sent> = [:]
    /// Names by their bytes, and the number behind the last one that was given.
    var numbers: OrderedDictionary<[UInt8], Int> = [:]
    var abandoned: OrderedSet<String> = []
    /// Of earlier tries; each is taken away once.
    var discarded: OrderedSet<String> = []
  }

  /// Far more than there are requests in flight.
  private static let entriesMax = 4096

  private let state = Mutex(State())

  /// `earlier` are uploads of which it is not known what became of them. What this run has begun it takes away itself.
  func begin(
    _ nonce: [UInt8], in folder: String, name: String, earlier: [[UInt8]], temporaryName: ([UInt8]) -> String
  ) {
    state.withLock { state in
      var beginning = Beginning()
      beginning.knowsFolder = state.folders.contains(Array(folder.utf8))
      beginning.marks = state.marks
      beginning.sendsConditions = state.sendsConditions
      beginning.nameForm = state.nameForm
      beginning.number = state.numbers[Array(name.utf8)] ?? 2
      beginning.temporaryName = temporaryName(nonce)
      // Under another name it is another publication.
      beginning.sent = state.sent[nonce].flatMap { $0.wanted.utf8.elementsEqual(name.utf8) ? $0 : nil }
      let leftovers = earlier.filter { state.beginnings[$0] == nil }.map(temporaryName)
      beginning.leftovers = Array(state.abandoned) + leftovers.filter { !state.discarded.contains($0) }
      if let former = state.beginnings[nonce]?.temporaryName,
        !former.utf8.elementsEqual(beginning.temporaryName.utf8)
      {
        beginning.leftovers.append(former)
      }
      state.abandoned = []
      state.ended.remove(nonce)
      Self.forgetEnded(&state)
      state.beginnings[nonce] = beginning
    }
  }

  /// Nothing of a file is in flight any more: what it began with may be forgotten. Before that its answers would be read as others.
  func end(_ nonce: [UInt8]) { state.withLock { _ = $0.ended.append(nonce) } }

  private static func forgetEnded(_ state: inout State) {
    guard state.beginnings.count >= entriesMax, !state.ended.isEmpty else { return }
    let gone = OrderedSet(state.ended.prefix(entriesMax / 2))
    state.ended.removeFirst(gone.count)
    state.beginnings = state.beginnings.filter { !gone.contains($0.key) }
  }

  func beginning(of nonce: [UInt8]) -> Beginning { state.withLock { $0.beginnings[nonce] ?? Beginning() } }

  /// What was sent in another try, or of an earlier content.
  func sent(_ nonce: [UInt8]) -> Sent? { state.withLock { $0.sent[nonce] } }

  func learn(folder: String, isThere: Bool) {
    state.withLock { state in
      let key = Array(folder.utf8)
      guard isThere else {
        state.folders.remove(key)
        return
      }
      if state.folders.count >= Self.entriesMax { state.folders.removeFirst(Self.entriesMax / 2) }
      state.folders.append(key)
    }
  }

  func keepsNoMarks() { state.withLock { $0.marks = false } }

  /// It has taken a new name in this form.
  func takes(_ form: WebDAVNameForm) { state.withLock { $0.nameForm = form } }

  /// True where this is news.
  func keepsNoConditions() -> Bool {
    state.withLock { state in
      defer { state.sendsConditions = false }
      return state.sendsConditions
    }
  }

  /// It lies whole under its temporary name, or under its own.
  func note(_ sent: Sent, under nonce: [UInt8]) {
    state.withLock { state in
      Self.makeRoom(&state.sent)
      state.sent[nonce] = sent
    }
  }

  /// No later try of the file uses what lies at this temporary name.
  func abandon(_ name: String, of nonce: [UInt8]) {
    state.withLock { state in
      state.sent[nonce] = nil
      if state.abandoned.count < Self.entriesMax { state.abandoned.append(name) }
    }
  }

  func discarded(_ names: [String]) {
    state.withLock { state in
      if state.discarded.count >= Self.entriesMax { state.discarded.removeFirst(Self.entriesMax / 2) }
      state.discarded.append(contentsOf: names)
    }
  }

  /// A name has got a number.
  func used(_ number: Int, of name: String) {
    state.withLock { state in
      let key = Array(name.utf8)
      Self.makeRoom(&state.numbers)
      state.numbers[key] = max(state.numbers[key] ?? 0, number + 1)
    }
  }

  private static func makeRoom<Value>(_ entries: inout OrderedDictionary<[UInt8], Value>) {
    if entries.count >= entriesMax { entries.removeFirst(entriesMax / 2) }
  }
}
