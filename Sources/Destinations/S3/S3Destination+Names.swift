import ChunkProtocol
import FileModel
import Integrity
import TransferModel

/// Whose a key is (docs/destinations.md, DE26): asked for with HEAD, and left to the server for the moment between.
///
/// A server may ignore `If-None-Match` for one request and know it for another (Ceph 16 ignores it where an upload is completed), and
/// would replace the object without a word. So the key is looked for before, unless the server is known to keep the condition.
extension S3Destination {
  /// An object of at most this size is put a second time, to find out whether the server keeps conditions.
  private static let trialBytesMax = 64 << 10

  /// Without a stated right, that of a test of the destination, which may leave names alone.
  func right(_ stated: NameRight?) -> NameRight {
    stated ?? NameRight(ifExists: options.ifExists == .refuse ? .refuse : .replace)
  }

  /// What a step begins with; kept for its answers.
  func begin(_ step: DestinationStep) {
    switch step {
    case .openSession(let opening):
      publishedParts.begin(opening)
      begin(.opening, opening.nonce, opening.path, opening.right)
    case .commit(let commit): begin(.completion, commit.session.nonce, commit.path, commit.right)
    case .wholeFile(let sending):
      begin(.object, sending.nonce, sending.path, sending.right, mayTry: sending.plainBytes <= Self.trialBytesMax)
    case .prewarm, .querySession, .secureSession, .chunk, .run, .zeros, .abort, .bundle: break
    }
  }

  private func begin(
    _ kind: S3NameMemory.Kind, _ nonce: [UInt8], _ path: RelativePath, _ stated: NameRight?, mayTry: Bool = false
  ) {
    let right = right(stated)
    guard right.ifExists != .replace else { return }
    let mayTry = mayTry && probesFirst
    names.begin(kind, nonce, name: publishedName(for: path), hasEarlier: !right.replaces.isEmpty, mayTry: mayTry)
  }

  private func beginning(of kind: S3NameMemory.Kind, _ nonce: [UInt8]) -> S3NameMemory.Beginning {
    var beginning = names.beginning(of: kind, nonce)
    if !probesFirst { beginning.probes = false }
    return beginning
  }

  private func search(
    for path: RelativePath, _ right: NameRight, _ beginning: S3NameMemory.Beginning
  ) -> NameSearch {
    NameSearch(
      prefix: address.prefix, name: name(of: path), publishedAs: right.publishedAs,
      first: beginning.number)
  }

  /// What came of a file in one request, and what comes next.
  func machine(of sending: WholeFileSending, _ responses: some Sequence<HTTPResponse>) -> S3PublicationMachine {
    let right = right(sending.right)
    let beginning = beginning(of: .object, sending.nonce)
    let claim = S3Claim(
      nonce: sending.nonce, sizeBytes: UInt64(clamping: sending.body?.bytes.count ?? 0), replaces: right.replaces,
      content: (sending.fileID, sending.proof.merkleRoot))
    var machine = S3PublicationMachine(
      .object, claim, right.ifExists, search(for: sending.path, right, beginning), in: address.bucket, beginning,
      mayDropChecksum: isTrial(sending.nonce))
    for response in responses { machine.take(response) }
    return machine
  }

  /// What came of the end of an upload, and what comes next. Its key was found when it was begun.
  func machine(of commit: SessionCommit, _ responses: some Sequence<HTTPResponse>) -> S3PublicationMachine {
    let right = right(commit.right)
    let key = S3Upload(sessionID: commit.session.id)?.key ?? publishedName(for: commit.path)
    let claim = S3Claim(nonce: commit.session.nonce, sizeBytes: commit.sizeBytes, replaces: right.replaces)
    var machine = S3PublicationMachine(
      .completion, claim, right.ifExists, NameSearch(prefix: "", name: key, publishedAs: nil, first: 2),
      in: address.bucket, beginning(of: .completion, commit.session.nonce))
    for response in responses { machine.take(response) }
    return machine
  }

  /// Under which key an upload is begun.
  enum Place {
    case asked(String)
    /// It is begun under this one; the further answers are those to its opening.
    case found(NameSearch, answers: [HTTPResponse])
    /// The server did not say.
    case unanswered(HTTPResponse)
    /// All numbers are taken.
    case none(String)
  }

  /// A key that must not be taken is left to the end: until then its object may go.
  func place(of opening: SessionOpening, _ responses: [HTTPResponse]) -> Place {
    let right = right(opening.right)
    var search = search(for: opening.path, right, beginning(of: .opening, opening.nonce))
    guard right.ifExists == .number else { return .found(search, answers: responses) }
    let claim = S3Claim(nonce: [], sizeBytes: 0, replaces: right.replaces)
    for (index, response) in responses.enumerated() {
      let rest = Array(responses[(index + 1)...])
      switch claim.standing(response) {
      case .made, .replaceable, .unseen: return .found(search, answers: rest)
      case .unanswered: return .unanswered(response)
      case .free where search.foundFree(): return .found(search, answers: rest)
      case .taken where !search.foundTaken(): return .none(search.key)
      case .free, .taken: continue
      }
    }
    return .asked(search.key)
  }

  /// A publication is over: its answers have said something of the server, and a number may be given.
  func learn(_ kind: S3NameMemory.Kind, _ nonce: [UInt8], _ path: RelativePath, from machine: S3PublicationMachine) {
    if let word = machine.learned, names.learn(kind, word), let text = word.text(kind, at: address.text) {
      whenConditionsFail(text)
    }
    names.ended(nonce)
    guard let number = machine.search.number, kind == .object else { return }
    switch machine.turn {
    case .end(.published), .end(.found): names.used(number, of: publishedName(for: path))
    case .probe, .send, .end: break
    }
  }

  /// What became of a key that is another capture's.
  func taken(_ key: String, isBound: Bool, _ ifExists: S3Options.IfExists) -> StepOutcome {
    let taken = refused(S3Answer(HTTPResponse(status: 412)))
    guard isBound, ifExists == .number else { return taken }
    return .refused(
      StepFailure(
        .nameTaken,
        "Another capture has got the name \(key) at \(address.text) since the upload began, which is bound to it; "
          + "the file is sent again under the next number."))
  }
}

extension S3Answer {
  /// It completed an upload and does not name the object: Ceph 16 answers so the first time.
  var isPublicationWithoutETag: Bool {
    isSuccess && root?.name.hasPrefix("CompleteMultipartUpload") == true
      && Self.entityTag(root?.child("ETag")?.text) == nil
  }

  /// It completed an upload, by its own words as another object. Servers leave out the key, escape it, or put a slash or the bucket before
  /// it; what else they say is to be checked. (The bucket is another one behind an alias.)
  func namesAnother(than key: String, in bucket: String) -> Bool {
    guard isSuccess, let root, root.name.hasPrefix("CompleteMultipartUpload") else { return false }
    return Self.names(root.child("Key"), noneOf: [key, "\(bucket)/\(key)"])
  }

  private static func names(_ element: XMLElement?, noneOf wanted: [String]) -> Bool {
    guard let said = element?.text, !trimmed(said).isEmpty else { return false }
    let plain = PercentCoding.decode(said)
    // A form's way of escaping has “+” for a blank.
    let form = PercentCoding.decode(said.replacing("+", with: "%20"))
    let forms = [said, plain, form].compactMap { $0 }.map(trimmed)
    return !wanted.contains { forms.contains(trimmed($0)) }
  }

  /// Without blanks at both ends, which XML need not keep, and slashes before it.
  private static func trimmed(_ text: String) -> Substring {
    let start = text.unicodeScalars.drop { $0.properties.isWhitespace || $0 == "/" }
    let end = start.lastIndex { !$0.properties.isWhitespace }.map(start.index(after:)) ?? start.startIndex
    return Substring(start[..<end])
  }
}

extension S3NameMemory.Word {
  /// What it means for captures, for people; nil where all is well.
  func text(_ kind: S3NameMemory.Kind, at server: String) -> String? {
    let whose = kind == .object ? "a file in one request" : "a file in parts"
    let what: String
    switch self {
    case .unknown, .kept: return nil
    case .ignored: what = "ignores the condition that the key of \(whose) is free"
    case .refused: what = "takes no condition on the key of \(whose)"
    }
    return "The server at \(server) \(what). It is asked for the key first; what another program puts there between "
      + "question and file is replaced."
  }
}
