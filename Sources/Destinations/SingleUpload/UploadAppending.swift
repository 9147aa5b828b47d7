import TransferModel

/// Bytes at the end of an upload, in as many requests as it takes: a server may take less than it was sent, and no more at
/// once than it says.
struct UploadAppending {
  /// What an answer says of the upload.
  enum Reply {
    /// How far it goes now.
    case reached(UInt64)
    /// It has taken all of what was sent.
    case tookAll
    /// Nothing of its end: it is to be asked. What that means where it was asked.
    case unsaid(StepFailure)
    /// It ends elsewhere than where the bytes were to go; the failure says it for steps that cannot ask.
    case conflict(StepFailure)
    /// It is not there any more, or takes nothing more.
    case gone
    /// The request is not understood. A question has nothing but the upload's address, which is wrong then: a bit of it has flipped on
    /// the way here, and it would not be understood another time either.
    case notUnderstood(StepFailure)
    case refused(StepFailure)
  }

  /// What follows.
  enum Next {
    /// How far it goes is to be asked.
    case ask
    case send(UploadBody, at: UInt64)
    case stored
    /// It cannot be continued with these bytes.
    case lost
    case refused(StepFailure)
  }

  let upload: String
  let body: UploadBody
  /// Where the bytes belong.
  let base: UInt64
  /// It was begun for these bytes and nothing else.
  var isOurs = false
  /// How far the upload goes is asked before anything is sent.
  var asksFirst = false
  /// What one request may carry.
  var requestBytesMax = Int.max
  let memory: UploadMemory
  /// The server, as messages name it.
  let server: String

  /// A server that refuses what follows from its own answers is not asked for ever.
  private static let questionsMax = 4
  /// Nor is one that takes little of what it is sent sent the rest for ever: so many times the body at most.
  private static let sentAgainMax = 4

  private var end: UInt64 { base + UInt64(body.count) }

  /// What follows from the replies so far; it changes nothing. `first` is where the upload ended when it was heard of.
  func next(from first: UInt64?, _ responses: ArraySlice<HTTPResponse>, reply: (HTTPResponse) -> Reply) -> Next {
    var offset = first ?? base
    var isAsking = asksFirst
    let isOfOthers = findsOther(responses, reply: reply)
    var questions = 0
    var sentAgain: UInt64 = 0
    // Where bytes were sent of which the answer says nothing.
    var sentFrom: UInt64?
    for response in responses {
      let reached: UInt64
      switch reply(response) {
      case .conflict(let failure) where isAsking || questions == Self.questionsMax: return .refused(failure)
      case .unsaid(let failure) where isAsking: return .refused(failure)
      case .conflict:
        questions += 1
        isAsking = true
        continue
      case .unsaid:
        isAsking = true
        sentFrom = offset
        continue
      case .tookAll where isAsking: return unexpected("does not say how far an upload goes")
      case .gone: return .lost
      case .notUnderstood where isAsking: return .lost
      case .notUnderstood(let failure), .refused(let failure): return .refused(failure)
      case .tookAll: reached = offset + UInt64(piece(at: offset).count)
      case .reached(let said): reached = said
      }
      // Only this is known of what is there: it was sent from the same bytes. A server that was asked may be behind.
      let isKnown =
        reached <= base || isOurs || !isOfOthers && memory.hasOnly(upload, at: base, sha256: body.sha256)
      guard (base...end).contains(reached), !isAsking || isKnown else { return .lost }
      // What was not sent is not there: it would be called delivered, and only the server's word would say what it is.
      guard memory.canReach(upload, to: reached), isAsking || reached <= offset + UInt64(piece(at: offset).count) else {
        return .lost
      }
      if let begin = isAsking ? sentFrom : offset {
        guard reached > begin else { return unexpected("takes no bytes of an upload") }
        sentAgain += UInt64(piece(at: begin).count) - min(UInt64(piece(at: begin).count), reached - begin)
        guard sentAgain <= UInt64(body.count) * UInt64(Self.sentAgainMax) else {
          return unexpected("takes little of what it is sent of an upload")
        }
      }
      isAsking = false
      sentFrom = nil
      offset = reached
    }
    guard (base...end).contains(offset) else { return .lost }
    if isAsking { return .ask }
    if offset == end { return .stored }
    return .send(piece(at: offset), at: offset)
  }

  /// The first bytes that were sent to where the server had said that the upload ends were refused for their place: what is there is not
  /// theirs. A request that was sent before, with other bytes or by an earlier run, has arrived since, or the server had said it
  /// wrong.
  private func findsOther(_ responses: ArraySlice<HTTPResponse>, reply: (HTTPResponse) -> Reply) -> Bool {
    guard !asksFirst, memory.isFound(upload), let first = responses.first, case .conflict = reply(first) else {
      return false
    }
    return true
  }

  /// How far the upload goes is about to be asked, for the last of these answers.
  func isAsked(after responses: ArraySlice<HTTPResponse>, reply: (HTTPResponse) -> Reply) {
    if responses.count == 1, findsOther(responses, reply: reply) { memory.hasOther(upload) }
  }

  /// Some of these bytes are about to be sent, from an offset on.
  func isBegun(from offset: UInt64) {
    memory.begins(upload, at: base, sha256: body.sha256, from: offset, body.sentBytes)
  }

  /// These bytes are there, and nothing behind them.
  func isStored() { memory.holds(upload, from: base, to: end, sha256: body.sha256) }

  private func piece(at offset: UInt64) -> UploadBody {
    body.from(Int(clamping: offset - min(base, offset)), bytesMax: requestBytesMax)
  }

  private func unexpected(_ what: String) -> Next { .refused(StepFailure(.unexpectedAnswer, "\(server) \(what).")) }
}
