import ChunkProtocol
import Integrity
import Lookup

extension ReceiverCore {
  mutating func beginWholeFile(_ request: RequestID, _ head: WholeFileHead) {
    let key = Key(credential: head.credential, text: head.idempotencyKey)
    let fingerprint = head.fingerprint
    if let use = keys[key] { return sendAgain(request, fingerprint, use) }
    if let refusal = wholeFileRefusal(head) { return refuse(request, refusal) }
    keys[key] = .wholeFile(WholeFileUse(fingerprint: fingerprint, receipt: nil))
    stages[request] = .wholeFile(head, fingerprint: fingerprint)
    wholeFileBytes[head.credential, default: 0] &+= UInt64(head.announced.facts.sizeBytes)
    setArriving(true, request, head)
    reply(request, .bodyAdmitted)
  }

  /// The same key again: the same receipt, unless the key was for something else.
  private mutating func sendAgain(_ request: RequestID, _ fingerprint: Digest32, _ use: KeyUse) {
    guard case .wholeFile(let first) = use, first.fingerprint == fingerprint else {
      return refuse(request, .idempotencyMismatch, "this Idempotency-Key was used for something else")
    }
    guard let receipt = first.receipt else {
      return refuse(request, .underWay, "a request with this Idempotency-Key is still running")
    }
    reply(request, .receipt(receipt))
  }

  private mutating func wholeFileRefusal(_ head: WholeFileHead) -> Refusal? {
    if let violation = PublishedName.validate(head.name) { return Refusal(.nameRefused, violation.description) }
    let size = UInt64(head.announced.facts.sizeBytes)
    let limit = min(UInt64(limits.chunkBytesMax), limits.fileBytesMax)
    guard size <= limit else {
      return Refusal(.tooLarge(limitBytes: limit), "a file of more than \(limit) bytes needs an upload session")
    }
    if let refusal = head.announced.lengthRefusal { return refusal }
    return spaceRefusal(size, for: head.credential, freeBytes: head.freeBytes)
  }

  mutating func wholeFileArrived(_ request: RequestID, _ arrived: ChunkChecksums) {
    guard case .wholeFile(let head, let fingerprint) = stages[request], let credential = credentials[head.credential]
    else { return overtakenWholeFileEnded(request) }
    setArriving(false, request, head)
    let subject = MACSubject(
      keys: credential.macMasterKeys.map {
        ChunkMAC.sessionKey(masterKey: $0, nonce: head.nonce, sessionID: head.idempotencyKey)
      },
      sessionID: head.idempotencyKey, nonce: head.nonce)
    if let refusal = contentRefusal(head.announced, arrived, index: 0, subject) {
      return endWholeFile(request, head, refusal)
    }
    var tree = MerkleTree()
    var chain = CommitmentChain(sessionID: head.idempotencyKey)
    if arrived.sizeBytes > 0 {
      tree.append(arrived.sha256)
      chain.extend(with: arrived.sha256)
    }
    let receipt = PublicationReceipt(
      id: head.receiptID, name: head.name, sizeBytes: UInt64(arrived.sizeBytes), merkleRoot: tree.root,
      chainTip: chain.tip, publishedAt: now, fileID: head.fileID)
    stages[request] = .publishingWholeFile(head, fingerprint: fingerprint, receipt)
    let record = WholeFileRecord(
      credential: credential.recordedID.text, idempotencyKey: head.idempotencyKey,
      fingerprint: fingerprint)
    let publication = Publication(
      receipt: receipt, credential: head.credential, modifiedNanoseconds: head.modifiedNanoseconds, mode: head.mode,
      ifExists: head.ifExists, chunkBytes: arrived.sizeBytes, ownership: head.ownership)
    publish(publication, request, .publishWholeFile(request, record, publication))
  }

  mutating func wholeFileFailed(_ request: RequestID, _ refusal: Refusal) {
    guard case .wholeFile(let head, _) = stages[request] else { return overtakenWholeFileEnded(request) }
    setArriving(false, request, head)
    endWholeFile(request, head, refusal)
  }

  mutating func wholeFilePublished(_ request: RequestID, _ result: Result<PublicationResult, StoreFailure>) {
    guard case .publishingWholeFile(let head, let fingerprint, let receipt) = stages[request] else { return }
    defer {
      let key = NameKey(credential: head.credential, name: head.name)
      endPublishing(key, request, isPublished: result.isRenamed)
    }
    switch result {
    case .failure(let failure): endWholeFile(request, head, failure.refusal)
    case .success(let outcome):
      forget(request, head)
      let key = Key(credential: head.credential, text: head.idempotencyKey)
      var receipt = receipt
      (receipt.publishedAs, receipt.takenFrom) = (outcome.publishedAs, outcome.takenFrom)
      countPublished(receipt.sizeBytes, replacing: outcome.replacedBytes, for: head.credential)
      keys[key] = .wholeFile(WholeFileUse(fingerprint: fingerprint, receipt: receipt))
      finish(key, at: now)
      reply(request, .receipt(receipt))
    }
  }

  /// Nothing was published: the key is free again.
  mutating func endWholeFile(_ request: RequestID, _ head: WholeFileHead, _ refusal: Refusal) {
    forget(request, head)
    keys[Key(credential: head.credential, text: head.idempotencyKey)] = nil
    refuse(request, refusal)
  }

  private mutating func forget(_ request: RequestID, _ head: WholeFileHead) {
    stages[request] = nil
    let bytes = wholeFileBytes[head.credential] ?? 0
    wholeFileBytes[head.credential] = bytes - min(bytes, UInt64(head.announced.facts.sizeBytes))
  }
}
