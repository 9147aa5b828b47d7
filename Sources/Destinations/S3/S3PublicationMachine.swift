import FileModel
import TransferModel

/// Under which condition an object is published.
enum S3Condition: Hashable {
  case none
  /// There is none of that key.
  case free
  /// The one of that key is this one.
  case tag(String)

  var headers: [(String, String)] {
    switch self {
    case .none: []
    case .free: [("if-none-match", "*")]
    case .tag(let tag): [("if-match", tag)]
    }
  }
}

/// The requests of one publication, a PUT or the completion of an upload: they ask whose the key is, publish under a condition, and
/// ask again where that is refused. A PUT goes on to the next free number; an upload is bound to its key.
struct S3PublicationMachine {
  enum Turn {
    case probe(String)
    case send(String, S3Condition, withChecksum: Bool)
    case end(End)
  }

  enum End {
    case published(S3Answer)
    /// By an earlier try, whose answer never arrived.
    case found(S3Answer)
    case refused(S3Answer)
    /// An upload was completed, and nothing says as what; or as another object than was asked for, and that one is not there.
    case withoutETag
    /// The key is another capture's.
    case taken
    /// The object changes with every question.
    case restless
  }

  /// What the answer is awaited to.
  private enum Asked {
    case probe
    /// The request was refused so.
    case probeAfter(S3Answer)
    case send
    /// The same object once more; it was published by this answer.
    case trial(S3Answer)
  }

  /// Requests with bodies that may be refused because the object has changed since it was checked.
  private static let sendsMax = 32

  private(set) var turn: Turn
  private(set) var search: NameSearch
  /// What the answers say of the server.
  private(set) var learned: S3NameMemory.Word?
  private let kind: S3NameMemory.Kind
  private let bucket: String
  private let claim: S3Claim
  private let ifExists: S3Options.IfExists
  private let isTrial: Bool
  /// The server may refuse the request for its condition, and gets it without.
  private let mayDropCondition: Bool
  private var mayDropChecksum: Bool
  private var withChecksum = true
  private var sendsConditions: Bool
  private var droppedCondition = false
  private var condition = S3Condition.none
  private var asked: Asked
  private var sends = 0

  /// `mayDropChecksum` is true where it is not known yet whether the server knows checksums.
  init(
    _ kind: S3NameMemory.Kind, _ claim: S3Claim, _ ifExists: S3Options.IfExists, _ search: NameSearch,
    in bucket: String, _ beginning: S3NameMemory.Beginning, mayDropChecksum: Bool = false
  ) {
    self.bucket = bucket
    (self.kind, self.claim, self.ifExists, self.search) = (kind, claim, ifExists, search)
    self.mayDropChecksum = mayDropChecksum
    mayDropCondition = ifExists == .number
    sendsConditions = ifExists != .replace && (beginning.sendsConditions || ifExists == .refuse)
    isTrial = beginning.isTrial && sendsConditions
    (asked, turn) = (.probe, .probe(search.key))
    if ifExists == .replace || !beginning.probes { send(.free) }
  }

  /// What the requests have done whose answers there are, whatever becomes of the next one.
  enum Done {
    case nothing
    case mayHavePublished
    case published
  }

  var done: Done {
    switch asked {
    case .trial: .published
    case .probeAfter(let refusal): refusal.isSuccess || refusal.mayMeanPublished ? .mayHavePublished : .nothing
    case .probe, .send: .nothing
    }
  }

  /// What came of it; without the answer to a last probe or trial, what was refused or published. Nil where nothing was answered yet.
  var end: End? {
    if case .end(let end) = turn { return end }
    switch asked {
    case .trial(let first): return .published(first)
    case .probeAfter(let refusal): return refusal.isSuccess ? .withoutETag : .refused(refusal)
    case .probe, .send: return nil
    }
  }

  mutating func take(_ response: HTTPResponse) {
    if case .end = turn { return }
    switch asked {
    case .probe: probed(response, after: nil)
    case .probeAfter(let refusal): probed(response, after: refusal)
    case .send: sent(S3Answer(response))
    case .trial(let first): tried(S3Answer(response), after: first)
    }
  }

  private mutating func probed(_ response: HTTPResponse, after refusal: S3Answer?) {
    let standing = claim.standing(response)
    switch standing {
    case .made: return end(.found(S3Answer(response)))
    case .unanswered: return end(.refused(S3Answer(response)))
    case .free, .unseen, .replaceable, .taken: break
    }
    if let refusal, !isOfName(refusal) { return end(refusal.isSuccess ? .withoutETag : .refused(refusal)) }
    switch standing {
    case .replaceable(let tag): send(.tag(tag))
    case .unseen where refusal != nil: foundTaken()
    case .unseen: send(.free)
    case .free:
      if search.foundFree() { send(.free) } else { probe() }
    default: foundTaken()
    }
  }

  private mutating func foundTaken() {
    guard kind == .object, ifExists == .number, search.foundTaken() else { return end(.taken) }
    probe()
  }

  private mutating func sent(_ answer: S3Answer) {
    // Behind a status of 200 there may be an error: it was sent before it was known how this would end.
    guard !answer.isSuccess || answer.code != nil else {
      let isOther = answer.namesAnother(than: search.key, in: bucket)
      if isOther || answer.isPublicationWithoutETag { return probe(after: answer) }
      if droppedCondition { learned = .refused }
      guard isTrial, condition == .free, learned == nil else { return end(.published(answer)) }
      asked = .trial(answer)
      return
    }
    if answer.refusesField, mayDropChecksum || mayDropCondition && condition != .none {
      if mayDropChecksum {
        (mayDropChecksum, withChecksum) = (false, false)
        return send(condition)
      }
      (sendsConditions, droppedCondition) = (false, true)
      return probe()
    }
    if isOfName(answer), answer.status == 412 { learned = .kept }
    guard isOfName(answer) || answer.mayMeanPublished else { return end(.refused(answer)) }
    probe(after: answer)
  }

  /// The object was there: a server that keeps the condition has refused to publish it again.
  private mutating func tried(_ answer: S3Answer, after first: S3Answer) {
    if answer.isSuccess, answer.code == nil {
      learned = .ignored
      return end(.published(answer))
    }
    if answer.status == 412 { learned = .kept }
    end(.published(first))
  }

  /// The condition was not met.
  private func isOfName(_ refusal: S3Answer) -> Bool {
    guard condition != .none else { return false }
    if refusal.status == 412 || refusal.code == "PreconditionFailed" { return true }
    guard case .tag = condition else { return false }
    return refusal.code == "NoSuchKey"
  }

  private mutating func probe(after refusal: S3Answer? = nil) {
    asked = refusal.map { .probeAfter($0) } ?? .probe
    turn = .probe(search.key)
  }

  private mutating func send(_ wanted: S3Condition) {
    sends += 1
    guard sends <= Self.sendsMax else { return end(.restless) }
    condition = sendsConditions ? wanted : .none
    asked = .send
    turn = .send(search.key, condition, withChecksum: withChecksum)
  }

  private mutating func end(_ end: End) { turn = .end(end) }
}
