import ChunkProtocol
import FileModel
import Integrity
import Lookup
public import TransferModel

extension ChunkProtocolDestination {
  /// What a response to a step means. Whatever the response holds, this returns.
  public func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    switch (step, response.status) {
    case (_, 200..<300) where response.isForeignPage: refused(step, response)
    case (.prewarm, 200..<300): .warmed
    case (.openSession(let opening), 200), (.openSession(let opening), 201): opened(opening, response)
    case (.querySession(let session), 200), (.secureSession(let session), 200): held(session, response)
    case (.chunk, 200), (.chunk, 201), (.chunk, 204): .chunkStored
    case (.zeros, 200), (.zeros, 201): .chunkStored
    case (.commit(let commit), 200), (.commit(let commit), 201): published(response, as: expectation(commit))
    case (.abort, 200..<300): .ended
    case (.abort, 404), (.abort, 410): ended(step, response)
    case (.wholeFile(let sending), 200), (.wholeFile(let sending), 201):
      published(response, as: expectation(sending))
    case (.bundle(let sendings), 200):
      members(sendings.map { .wholeFile($0) }, ProtocolLimits.bundleFilesMax, "files", response)
    case (.run(let sendings), 200):
      members(sendings.map { .chunk($0) }, ProtocolLimits.runChunksMax, "chunks", response)
    default: refused(step, response)
    }
  }

  /// The receiver does not know the session, where it says so itself.
  private func ended(_ step: DestinationStep, _ response: HTTPResponse) -> StepOutcome {
    let outcome = refused(step, response)
    if case .refused(let failure) = outcome, failure.kind == .sessionGone { return .ended }
    return outcome
  }

  /// What the receiver says that it takes, with whatever it answers.
  public func offers(in response: HTTPResponse) -> DestinationOffers {
    let words = response.header(HeaderName.chunkEncodings.lowercased())?.split(separator: ",").map {
      $0.trimmingPrefix { $0 == " " }
    }
    return DestinationOffers(
      encodings: words.map { encodings($0.map(String.init)) },
      filesPerRequest: response.header(HeaderName.bundleFilesMax.lowercased()).flatMap {
        DecimalText.unsigned(Substring($0), as: UInt16.self).map { Int(min($0, UInt16(ProtocolLimits.bundleFilesMax))) }
      },
      runBytesMax: response.header(HeaderName.runBytesMax.lowercased()).flatMap {
        DecimalText.unsigned($0).map { Int(min($0, UInt64(ProtocolLimits.runBytesMax))) }
      },
      zeroRangesMax: response.header(HeaderName.zeroRangesMax.lowercased()).flatMap {
        DecimalText.unsigned($0).map { Int(min($0, UInt64(ProtocolLimits.zeroRangesMax))) }
      },
      takesSharedFrames: response.header(HeaderName.bundleEncodings.lowercased()).map {
        $0.split(separator: ",").contains {
          $0.trimmingPrefix { $0 == " " } == ChunkProtocol.ChunkEncoding.Word.zstd.rawValue
        }
      }, instance: response.header(HeaderName.instance.lowercased()).flatMap(ReceiverInstances.name(in:)))
  }

  /// What the receiver's capabilities say.
  public func limits(in response: HTTPResponse) -> DestinationLimits? {
    guard response.status == 200, let body = try? WireJSON.decode(Capabilities.self, from: response.body) else {
      return nil
    }
    let isRange = body.chunkBytesMin > 0 && body.chunkBytesMin <= body.chunkBytesMax
    let chunkBytes = isRange ? body.chunkBytesMin...body.chunkBytesMax : nil
    return DestinationLimits(
      fileBytesMax: body.fileBytesMax, chunkBytes: chunkBytes, wholeFileBytesMax: max(0, body.wholeFileBytesMax))
  }

  /// Each member of the request is answered for itself, as the step that would have sent it alone.
  private func members(
    _ steps: [DestinationStep], _ membersMax: Int, _ things: String, _ response: HTTPResponse
  ) -> StepOutcome {
    let answers: [BundleAnswer]
    do {
      answers = try BundleAnswer.read(response.body, membersMax: membersMax)
    } catch {
      return unexpected("took several \(things), but its answer is not understood (\(error))")
    }
    guard answers.count == steps.count else {
      return unexpected("took \(steps.count) \(things), and answered for \(answers.count)")
    }
    return .each(
      zip(steps, answers).map { step, answer in
        let fields = answer.fields.map { HTTPHeader($0.name.lowercased(), $0.value) }
        return outcome(
          of: step,
          response: HTTPResponse(
            status: answer.status, headers: fields, body: answer.body, connection: response.connection,
            receivedAtSeconds: response.receivedAtSeconds))
      })
  }

  private func refused(_ step: DestinationStep, _ response: HTTPResponse) -> StepOutcome {
    let answer = ChunkProtocolAnswer(response, endpoint: endpoint, isAnonymous: authorization == nil)
    if case .commit(let commit) = step {
      switch answer.type {
      case .incomplete: return incomplete(commit, answer)
      case .digestMismatch:
        // Every chunk was verified when it arrived, so both sides disagree on which chunks make the file. Not a
        // `digestMismatch`, which means bytes damaged on the way: the engine is to ask which chunks are stored.
        return .refused(
          StepFailure(
            .conflict,
            "The receiver at \(endpoint.text) holds other chunks than this file's; it will be asked which ones."))
      default: break
      }
    }
    return .refused(answer.failure(of: step))
  }

  private func incomplete(_ commit: SessionCommit, _ answer: ChunkProtocolAnswer) -> StepOutcome {
    let missing = (answer.problem?.missing ?? []).filter { $0 >= 0 && $0 < commit.chunkCount }
    guard !missing.isEmpty else {
      return unexpected("said that chunks are missing, and named none of this file's")
    }
    return .incomplete(missing: LookupSet(missing).sorted())
  }

  private func opened(_ opening: SessionOpening, _ response: HTTPResponse) -> StepOutcome {
    let session: SessionResponse
    do {
      session = try WireJSON.decode(SessionResponse.self, from: response.body)
    } catch {
      return nonsense("opened a session, but its answer is not understood (\(error))")
    }
    guard ProtocolPath.isSessionID(session.id) else {
      return nonsense("opened a session whose id holds characters that an id must not have")
    }
    guard session.chunkBytes > 0, session.chunkBytes <= max(options.chunkBytesMax, opening.chunkBytes) else {
      return nonsense("opened a session with chunks of \(session.chunkBytes) bytes")
    }
    // Each chunk costs memory and a request: what a server may make of a file is bounded by the protocol, and not by the server.
    let least = min(opening.chunkBytes, UploadConstants.chunkBytesMin)
    let (whole, rest) = (opening.sizeBytes ?? 0).quotientAndRemainder(dividingBy: UInt64(session.chunkBytes))
    guard session.chunkBytes >= least, whole + (rest > 0 ? 1 : 0) <= UInt64(ProtocolLimits.chunkCountMax) else {
      return nonsense(
        "opened a session with chunks of \(session.chunkBytes) bytes, which are too many (the protocol has at least \(least) bytes "
          + "in a chunk, and \(ProtocolLimits.chunkCountMax) chunks)")
    }
    return .sessionOpened(
      id: session.id, chunkBytes: session.chunkBytes, expiresAtSeconds: session.expiresAtSeconds,
      encodings: encodings(session.encodings), published: session.published.flatMap { published($0, opening) },
      isBased: opening.takesBase && session.isBased == true)
  }

  /// Nil where it is no publication of this file that could be compared.
  private func published(_ content: PublishedContent, _ opening: SessionOpening) -> FormerPublication? {
    guard let root = Digest32(hex: content.merkleRoot),
      FileID(content.fileID) == opening.fileID, content.chunkBytes > 0,
      content.publishedAs.map({ PublishedName.validate($0) == nil }) ?? true
    else { return nil }
    return FormerPublication(
      publication: EarlierPublication(
        fileID: opening.fileID, merkleRoot: Hex.encode(root), sizeBytes: content.sizeBytes,
        chunkBytes: content.chunkBytes, publishedAs: content.publishedAs),
      origin: PublicationOrigin(
        path: opening.path, name: opening.path, modifiedNanoseconds: content.modifiedNanoseconds),
      name: publishedName(for: opening.path), publishedAtMilliseconds: 0)
  }

  /// Whatever a receiver lists, it takes plain bytes; what this side does not know it will not use.
  private func encodings(_ listed: [String]?) -> LookupSet<OfferedEncoding> {
    var encodings: LookupSet<OfferedEncoding> = [.identity]
    for word in listed ?? [] {
      switch ChunkProtocol.ChunkEncoding.Word(rawValue: word) {
      case .lz4: encodings.insert(.lz4)
      case .zstd: encodings.insert(.zstd)
      case .identity, nil: break
      }
    }
    return encodings
  }

  private func held(_ session: SessionIdentity, _ response: HTTPResponse) -> StepOutcome {
    let body: HeldResponse
    do {
      body = try WireJSON.decode(HeldResponse.self, from: response.body)
    } catch {
      return unexpected("was asked what it holds, but its answer is not understood (\(error))")
    }
    guard body.id == session.id else { return unexpected("answered for another session") }
    if body.state == .committed {
      guard let receipt = body.receipt, let checked = checked(receipt) else {
        return unexpected("says that the session is published, but has no valid receipt")
      }
      return .published(checked)
    }
    guard body.chunkBytes > 0 else { return unexpected("holds chunks of \(body.chunkBytes) bytes") }
    guard body.digests != nil || body.held.isEmpty else {
      return unexpected("holds chunks, but does not tell their digests")
    }
    var held: LookupTable<Int, Digest32> = [:]
    // In no order: each digest goes to its own place.
    for (index, text) in body.digests ?? [:] {
      guard let index = DecimalText.unsigned(index, as: UInt32.self), index < ProtocolLimits.chunkCountMax,
        let digest = Digest32(hex: text)
      else { return unexpected("lists a chunk or a digest that is none") }
      held[Int(index)] = digest
    }
    return .held(
      digests: held, chunkBytes: body.chunkBytes, expiresAtSeconds: body.expiresAtSeconds,
      encodings: encodings(body.encodings), isDurable: body.isDurable ?? false)
  }

  /// What a receipt has to say.
  private struct Expectation {
    var name: String
    var sizeBytes: UInt64
    var merkleRoot: Digest32
    var chainTip: Digest32
  }

  private func expectation(_ commit: SessionCommit) -> Expectation {
    Expectation(
      name: publishedName(for: commit.path), sizeBytes: commit.sizeBytes, merkleRoot: commit.merkleRoot,
      chainTip: commit.chainTip)
  }

  private func expectation(_ sending: WholeFileSending) -> Expectation {
    let size = plainBytes(sending)
    var tree = MerkleTree()
    var chain = CommitmentChain(sessionID: wholeFileKey(sending))
    if size > 0 {
      tree.append(sending.digest.sha256)
      chain.extend(with: sending.digest.sha256)
    }
    return Expectation(
      name: publishedName(for: sending.path), sizeBytes: size, merkleRoot: tree.root, chainTip: chain.tip)
  }

  private func published(_ response: HTTPResponse, as expected: Expectation) -> StepOutcome {
    let body: ReceiptBody
    do {
      body = try WireJSON.decode(ReceiptBody.self, from: response.body)
    } catch {
      return unexpected("published the file, but its receipt is not understood (\(error))")
    }
    guard let receipt = checked(body) else { return unexpected("published the file, but its receipt is not valid") }
    // Names are compared by their bytes: two spellings of one letter are two names.
    guard receipt.sizeBytes == expected.sizeBytes, Digest32(hex: receipt.merkleRoot) == expected.merkleRoot,
      Digest32(hex: receipt.chainTip) == expected.chainTip, receipt.name.utf8.elementsEqual(expected.name.utf8)
    else { return unexpected("gave a receipt for something else than what was sent") }
    return .published(receipt)
  }

  /// A receipt whose parts are what they should be; it goes to the catalog and into status files.
  private func checked(_ body: ReceiptBody) -> Receipt? {
    guard let root = Digest32(hex: body.merkleRoot), let tip = Digest32(hex: body.chainTip),
      ProtocolPath.isSessionID(body.id), PublishedName.validate(body.name) == nil
    else { return nil }
    if let other = body.publishedAs, PublishedName.validate(other) != nil { return nil }
    let replaced = body.replaced.map { PrintableText.beginning(of: $0) }
    // What was in the way at the receiver, and where the file lies: people find it in the receipt.
    let words = ["published_as": body.publishedAs, "replaced": replaced].compactMapValues(\.self)
    let answer = words.isEmpty ? nil : String(decoding: WireJSON.encode(words), as: UTF8.self)
    return Receipt(
      id: body.id, name: body.name, sizeBytes: body.sizeBytes, merkleRoot: Hex.encode(root), chainTip: Hex.encode(tip),
      publishedAtMilliseconds: body.publishedAtMilliseconds, answer: answer, publishedAs: body.publishedAs,
      fileID: body.fileID.flatMap { FileID($0) }, replaced: replaced)
  }

  private func unexpected(_ what: String) -> StepOutcome { .refused(unexpectedAnswer(what)) }

  /// A session may have been begun, and no client can continue it.
  private func nonsense(_ what: String) -> StepOutcome { .refused(unexpectedAnswer(what).followingSuccess()) }

  private func unexpectedAnswer(_ what: String) -> StepFailure {
    StepFailure(
      .unexpectedAnswer,
      "The server at \(endpoint.text) \(what). Check that an uploadfs receiver of this version answers there.")
  }
}
