import FileModel
import Integrity
import Lookup
import TransferModel

/// What the catalog knows of a content before it is delivered: the Merkle root over the digests of its chunks, of which
/// each was read while it was whole. The seal is withdrawn, durably, before the content changes.
///
/// After a power cut the seal tells whether what is left of a file, here and at the server, is that content. The server
/// may have every chunk that the disk has lost. Whatever is assembled has this root or is not published.
struct ContentSeal: Hashable, Sendable {
  var root: Digest32
  /// The root depends on the length of the chunks.
  var chunkBytes: Int

  /// The `code` of such an entry in the catalog.
  static let code = "content-known"

  init(root: Digest32, chunkBytes: Int) {
    self.root = root
    self.chunkBytes = chunkBytes
  }

  /// The length of a chunk and the root: `4194304 6e34…`.
  var text: String { "\(chunkBytes) \(Hex.encode(root))" }

  /// What ``text`` says; nil for anything else.
  init?(_ text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 2, let chunkBytes = Int(words[0]), chunkBytes > 0, let root = Digest32(hex: String(words[1]))
    else { return nil }
    self.init(root: root, chunkBytes: chunkBytes)
  }
}

extension CatalogEntry {
  /// What is known of a content that is still to be delivered.
  var seal: ContentSeal? {
    guard state == .pending, failureCode == ContentSeal.code else { return nil }
    return failureMessage.flatMap { ContentSeal($0) }
  }

  /// The file's seal no longer describes its content.
  package mutating func contentChanges() {
    if failureCode == ContentSeal.code { (failureCode, failureMessage) = (nil, nil) }
    state = .pending
    receipt = nil
    session = ""
    doubt = .mountDied
  }
}

extension FileUpload {
  /// A power cut came before the spool's disk was known to have the content: what is published must have this root.
  var wantedSeal: ContentSeal? {
    snapshot.interruption == .notOnDisk && receipt == nil ? progress.seal : nil
  }
}

extension UploadSchedule {
  /// What is about to be committed is recorded in the catalog, for a power cut that comes before the receipt. Once the
  /// spool's disk has the content, no start needs the record.
  mutating func seal(_ file: inout FileUpload, _ proof: CommitProof, chunkBytes: Int) {
    let seal = ContentSeal(root: proof.merkleRoot, chunkBytes: chunkBytes)
    // Between the catalog's forgetting and the change nothing is recorded of the content.
    guard provesContents, !catalog.claims.isChanging(file.id), file.snapshot.interruption == nil,
      !file.snapshot.isOnDisk, file.progress.seal != seal
    else { return }
    file.progress.recordSeal(seal)
    actions.append(.record(file.id))
  }

  /// Only where the receiver says by which digests it holds chunks, and nothing is published without a commit.
  var provesContents: Bool { destination.abilities.durableChunks && destination.abilities.appendSequences == .none }

  /// The wanted content may be assembled in the present session.
  func mayProve(_ file: FileUpload) -> Bool {
    guard let seal = file.wantedSeal, provesContents, let session = file.session else { return false }
    return session.id != nil && session.chunkBytes == seal.chunkBytes && file.snapshot.sizeBytes > 0
  }

  /// The server has reported what it holds of a file of which the disk may have lost parts. Those chunks are not read
  /// again.
  func takeOver(_ held: HeldChunks, into transfer: ChunkTransfer) {
    for (index, state) in transfer.states.enumerated() {
      guard case .pending = state, let digest = held.acknowledged[index] ?? held.reportedDigest(of: index) else {
        continue
      }
      held.acknowledge(digest, at: index)
      transfer.set(.done(digest), at: index)
    }
  }

  /// What is left here and at the server is not the content that was closed. True when that was so, and the file is held.
  mutating func endDisproven(_ id: FileID, at now: ClockReading) -> Bool {
    guard let file = files[id], let seal = file.wantedSeal, file.publishing == nil, let transfer = file.transfer else {
      return false
    }
    // Computed anew, because what is denied is read from a disk that may have lost it.
    var proof = CommitProof(sessionID: "")
    for state in transfer.states {
      guard let digest = state.digest else { return false }
      proof.append(digest)
    }
    guard proof.merkleRoot != seal.root else { return false }
    endProof(id, at: now)
    return true
  }

  /// The content cannot be proven any more.
  mutating func endProof(_ id: FileID, at now: ClockReading) {
    guard var file = files[id] else { return }
    file.progress.recordSeal(nil)
    leaveTransfer(&file)
    files[id] = file
    settleName(id, at: now)
  }
}
