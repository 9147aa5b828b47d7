import FileModel
import Integrity
import OrderedCollections
import Synchronization

/// What this spool has published at one destination, by the name that was asked for, and what it may be publishing: by that a name
/// is its own (spec G6). It outlives the captures, so that the next one of a path may have the former one's name.
///
/// Asked on the thread that may wait for the disk. What is not in the catalog yet is remembered here; without it, as after a crash,
/// a name counts as another one's, which costs a number and no capture.
final class PublicationIndex: Sendable {
  /// Names by their bytes: to Swift two spellings of é are one.
  private typealias Name = [UInt8]

  private struct Noted {
    var request: HTTPRequestID
    var publication: EarlierPublication
  }

  private struct State {
    /// Published, and not in the catalog yet.
    var unsaved: OrderedDictionary<Name, Noted> = [:]
    /// Requests that are not answered.
    var underWay: OrderedDictionary<HTTPRequestID, [(name: Name, publication: EarlierPublication)]> = [:]
    /// Of these it is not known what became of them, the oldest first.
    var unclear: OrderedDictionary<Name, [EarlierPublication]> = [:]
  }

  /// Names of which the outcome is not known.
  private static let unclearNamesMax = 4096
  /// Publications of one name that a request may replace.
  private static let publicationsMax = 8

  private let catalog: Catalog
  private let state = Mutex(State())

  init(catalog: Catalog) {
    self.catalog = catalog
  }

  /// What a publication may do with its name. Blocks.
  func right(to name: String, _ ifExists: FileSettings.IfExists) throws(StorageError) -> NameRight {
    guard ifExists != .replace else { return NameRight(ifExists: .replace) }
    let key = Name(name.utf8)
    let (noted, others) = state.withLock { state in
      let underWay = state.underWay.values.joined().lazy.filter { $0.name == key }.map(\.publication)
      return (state.unsaved[key]?.publication, (state.unclear[key] ?? []) + underWay)
    }
    let last = if let noted { noted } else { try recorded(name, ifExists) }
    var replaces: [EarlierPublication] = []
    for publication in (last.map { [$0] } ?? []) + others.reversed()
    where replaces.count < Self.publicationsMax && !replaces.contains(publication) {
      replaces.append(publication)
    }
    return NameRight(ifExists: ifExists, replaces: replaces, publishedAs: last?.publishedAs)
  }

  /// From a disk that fails captures are to get away: without the record the name counts as another one's, which costs a number. What
  /// would be refused then waits instead.
  private func recorded(
    _ name: String, _ ifExists: FileSettings.IfExists
  ) throws(StorageError) -> EarlierPublication? {
    do throws(StorageError) {
      return try catalog.publication(named: name)
    } catch {
      guard ifExists == .number else { throw error }
      return nil
    }
  }

  /// A request goes out that is to publish these.
  func begins(_ request: HTTPRequestID, _ publications: [(name: String, publication: EarlierPublication)]) {
    guard !publications.isEmpty else { return }
    state.withLock { $0.underWay[request] = publications.map { (Name($0.name.utf8), $0.publication) } }
  }

  /// What came of a request.
  func ended(_ request: HTTPRequestID, _ outcome: StepOutcome) {
    state.withLock { state in
      let sent = state.underWay.removeValue(forKey: request) ?? []
      if case .each(let outcomes) = outcome, outcomes.count == sent.count {
        for (sent, outcome) in zip(sent, outcomes) { note(request, sent, outcome, &state) }
      } else if sent.isEmpty {
        note(request, nil, outcome, &state)
      } else {
        for sent in sent { note(request, sent, outcome, &state) }
      }
    }
  }

  private func note(
    _ request: HTTPRequestID, _ sent: (name: Name, publication: EarlierPublication)?, _ outcome: StepOutcome,
    _ state: inout State
  ) {
    switch outcome {
    case .published(let receipt):
      guard let publication = EarlierPublication(receipt, sent: sent?.publication) else { return }
      let name = sent?.name ?? Name(receipt.name.utf8)
      // The one that was asked for last is the one that stays, however late the answers come.
      if let noted = state.unsaved[name], noted.request.value > request.value { return }
      state.unsaved[name] = Noted(request: request, publication: publication)
      state.unclear[name] = nil
    case .refused(let failure) where failure.kind.mayHavePublished:
      guard let sent else { return }
      var known = state.unclear.removeValue(forKey: sent.name) ?? []
      known.removeAll { $0 == sent.publication }
      known.append(sent.publication)
      state.unclear[sent.name] = known.suffix(Self.publicationsMax)
      if state.unclear.count > Self.unclearNamesMax { state.unclear.removeFirst() }
    default: break
    }
  }

  /// What the catalog is to hold as well.
  func unsaved() -> [(name: String, publication: EarlierPublication)] {
    state.withLock { state in
      state.unsaved.map { (String(decoding: $0.key, as: UTF8.self), $0.value.publication) }
    }
  }

  /// The catalog has these.
  func saved(_ publications: [(name: String, publication: EarlierPublication)]) {
    let saved = Dictionary(publications.map { (Name($0.name.utf8), $0.publication) }) { $1 }
    state.withLock { state in
      // One that came meanwhile stays.
      state.unsaved = state.unsaved.filter { name, noted in saved[name] != noted.publication }
    }
  }
}

extension EarlierPublication {
  /// What a commit is to publish; nil of a file without an identity.
  init?(_ commit: SessionCommit) {
    guard let file = commit.fileID else { return nil }
    self.init(
      fileID: file, merkleRoot: Hex.encode(commit.merkleRoot), sizeBytes: commit.sizeBytes,
      chunkBytes: commit.chunkBytes)
  }

  /// What a request with a whole file is to publish; nil of a file that is read while it is sent.
  init?(_ sending: WholeFileSending) {
    guard sending.stream == nil else { return nil }
    var tree = MerkleTree()
    if sending.plainBytes > 0 { tree.append(chunkSHA256: sending.digest.sha256) }
    self.init(
      fileID: sending.fileID, merkleRoot: Hex.encode(tree.root), sizeBytes: UInt64(clamping: sending.plainBytes),
      chunkBytes: max(1, sending.plainBytes))
  }

  /// What a receipt says was published; nil where neither it nor the request says of which capture.
  fileprivate init?(_ receipt: Receipt, sent: EarlierPublication?) {
    guard let file = receipt.fileID ?? sent?.fileID else { return nil }
    self.init(
      fileID: file, merkleRoot: receipt.merkleRoot, sizeBytes: receipt.sizeBytes, chunkBytes: sent?.chunkBytes,
      publishedAs: receipt.publishedAs)
  }
}

extension StepFailure.Kind {
  /// The server may have published what it was asked to, or may do so still.
  fileprivate var mayHavePublished: Bool {
    switch self {
    case .conflict, .transport(.cancelled), .transport(.stopped): true
    default: leavesOpenWhatBecameOfIt
    }
  }
}
