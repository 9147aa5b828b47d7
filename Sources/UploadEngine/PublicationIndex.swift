package import FileModel
import Integrity
import Lookup
import OrderedCollections
import Synchronization
package import TransferModel

/// What this spool has published at one destination, by the name that was asked for, and what it may be publishing: by that a name
/// is its own (docs/destinations.md, DE138a). It outlives the captures, so that the next one of a path may have the former one's
/// name. To any other path it gives no right, whatever else has been lost: a name that is given again by mistake replaces nothing.
///
/// Asked on the thread that may wait for the disk. What is about to be published is in the catalog before the request goes out, so
/// that a daemon that is killed before it has an answer knows its own; what was published, with the receipt. What a failing disk or a
/// power cut has taken of that counts as another one's, which costs a number and no capture.
package final class PublicationIndex: Sendable {
  /// What a request is to publish.
  package struct Sent: Sendable {
    package var name: String
    package var publication: EarlierPublication
  }

  /// A capture that is to be published.
  package struct Claimant: Sendable {
    var file: FileID
    /// The path under which it lies, and those for which the name was given to it before: it was recorded there.
    var paths: [RelativePath]
    /// No template has ever given names, so that every name is the path for which it was published.
    var isCalledAsItsPath: Bool

    /// A capture under one of its paths.
    package init(_ file: FileID, at paths: [RelativePath], isCalledAsItsPath: Bool) {
      self.file = file
      self.paths = paths
      self.isCalledAsItsPath = isCalledAsItsPath
    }

    /// A capture under a path, by the names that were given.
    package init(_ file: FileID, at path: RelativePath, called name: RelativePath, _ names: PublishedNames?) {
      self.init(
        file, at: [path] + (names?.paths(of: file, called: name) ?? []), isCalledAsItsPath: names?.areMade != true)
    }

    /// It is a later content of that capture, or comes after it at its path.
    func follows(_ publication: EarlierPublication) -> Bool {
      publication.fileID == file || publication.origin.map { paths.contains($0.path) } ?? isCalledAsItsPath
    }
  }

  /// Names by their bytes: to Swift two spellings of é are one.
  private typealias Name = [UInt8]

  private struct InFlight {
    var name: Name
    var publication: EarlierPublication
    /// Nothing of this name was known before.
    var isOfNewName: Bool
    /// Where the catalog has it.
    var intent: RecordedIntent?
  }

  private struct Noted {
    var request: HTTPRequestID
    var publication: EarlierPublication
    var intent: RecordedIntent?
    var receiptID: String
    var atMilliseconds: Int64
  }

  /// Those that earlier runs have recorded.
  private enum EarlierNames {
    case unread
    case areIn
    /// They are not learned: the catalog is asked for each name.
    case tooMany
  }

  private struct State {
    /// Every name of which the catalog knows something, or will. Most captures have names that it has never heard of: it is not asked
    /// for these.
    var names = BloomFilter(bitCount: PublicationIndex.nameBits)
    var earlierNames = EarlierNames.unread
    /// Published, and not in the catalog yet.
    var unsaved: OrderedDictionary<Name, Noted> = [:]
    /// Requests that are not answered.
    var inFlight: OrderedDictionary<HTTPRequestID, [InFlight]> = [:]
    /// Of these it is not known what became of them, the oldest first.
    var unclear: OrderedDictionary<Name, [EarlierPublication]> = [:]
    /// What servers said of sessions of before, in the order of the answers: it was published, and may have been replaced since.
    var asked: OrderedDictionary<Name, [EarlierPublication]> = [:]
    /// Intents of requests that have published nothing, for the catalog to forget.
    var ended: [Int64] = []
    var lastIntent: Int64 = 0

    /// What may be published under a name, or may have been.
    func open(_ name: Name) -> [EarlierPublication] {
      (unclear[name] ?? []) + inFlight.values.joined().lazy.filter { $0.name == name }.map(\.publication)
    }
  }

  /// Names of which the outcome is not known.
  private static let unclearNamesMax = 4096
  /// Intents that the catalog is to forget. What is not forgotten does no harm.
  private static let endedMax = 4096
  /// Names of earlier runs that are learned, in some milliseconds. A spool with more of them has its catalog asked for each capture.
  private static let earlierNamesMax = 100_000
  /// 512 KiB: of a name among as many one in 100,000 is asked for in vain, and one in 50 among as many as four times.
  private static let nameBits = 1 << 22
  /// Publications of one name that a request may replace.
  private static let publicationsMax = 8

  private let catalog: Catalog
  private let state = Mutex(State())

  /// What an earlier process has recorded in the catalog.
  package init(catalog: Catalog) {
    self.catalog = catalog
  }

  /// What the publication of a capture may do with its name. Blocks.
  package func right(
    to name: String, for claimant: Claimant, _ ifExists: FileSettings.IfExists
  ) throws(StorageError) -> NameRight {
    let key = Name(name.utf8)
    learnEarlierNames()
    guard mayBeKnown(key) else { return NameRight(ifExists: ifExists) }
    let (noted, asked, others) = state.withLock { state in
      (state.unsaved[key], state.asked[key] ?? [], state.open(key))
    }
    // What is noted is known without the catalog.
    let recorded = try recorded(name, noted == nil && ifExists == .refuse ? .refuse : .number)
    let last = noted?.publication ?? recorded.last(afterAsking: asked)?.publication
    let intents = recorded.intents.filter { $0.number > noted?.intent?.number ?? 0 }.map(\.publication)
    let known = [last].compactMap(\.self) + asked.reversed() + others.reversed() + intents.reversed()
    // What another capture has published for the path may lie under this one name for another of its paths as well.
    let isAfterOthers = known.contains { $0.fileID != claimant.file && claimant.follows($0) }
    let elsewhere =
      isAfterOthers
      ? try captures(
        sharing: last?.publishedAs ?? name, with: name, unheard: LookupSet((others + intents).map(\.fileID)), ifExists)
      : []
    let follows = { (publication: EarlierPublication) in
      claimant.follows(publication) && (publication.fileID == claimant.file || !elsewhere.contains(publication.fileID))
    }
    let own = last.flatMap { follows($0) ? $0 : nil }
    // Whatever has the name gives way, but what has been chosen for the path before stays.
    guard ifExists != .replace else { return NameRight(ifExists: .replace, publishedAs: own?.publishedAs) }
    var replaces: [EarlierPublication] = []
    for publication in known
    where replaces.count < Self.publicationsMax && follows(publication)
      && !replaces.contains(where: publication.isSame)
    {
      replaces.append(publication)
    }
    return NameRight(ifExists: ifExists, replaces: replaces, publishedAs: own?.publishedAs)
  }

  /// The captures that have, or may have, the published name of this one's also for a path that is itself called so, or whose number it
  /// is: one of them is `a.mov` and lies at the server as `a-2.mov`, and has the path `a-2.mov` as well, or had it. A server that is asked for
  /// what it has there already says that it has it. What was published of the `unheard` for the name may have its first number.
  private func captures(
    sharing published: String, with name: String, unheard: LookupSet<FileID>, _ ifExists: FileSettings.IfExists
  ) throws(StorageError) -> LookupSet<FileID> {
    var captures: LookupSet<FileID> = []
    for other in [published, NumberedName.unnumbered(published)].compactMap(\.self) {
      captures.formUnion(try self.captures(named: other, lyingAt: published, butNot: name, ifExists))
    }
    if !unheard.isEmpty {
      let second = try self.captures(
        named: NumberedName.second(of: name), lyingAt: published, butNot: name, ifExists)
      captures.formUnion(second.filter { unheard.contains($0) })
    }
    return captures
  }

  /// Those that were published under another name than this one and lie there, or may: of those of which nothing was heard it is not known
  /// under which name they lie.
  private func captures(
    named other: String, lyingAt published: String, butNot name: String, _ ifExists: FileSettings.IfExists
  ) throws(StorageError) -> LookupSet<FileID> {
    guard !other.utf8.elementsEqual(name.utf8), mayBeKnown(Name(other.utf8)) else { return [] }
    let key = Name(other.utf8)
    let (noted, open) = state.withLock { ($0.unsaved[key], ($0.asked[key] ?? []) + $0.open(key)) }
    let recorded = try recorded(other, ifExists == .refuse ? .refuse : .number)
    // Of those before what is noted it is known what became of them.
    let intents = recorded.intents.filter { $0.number > noted?.intent?.number ?? 0 }.map(\.publication)
    var captures = LookupSet((open + intents).map(\.fileID))
    if let last = noted?.publication ?? recorded.last, (last.publishedAs ?? other).utf8.elementsEqual(published.utf8) {
      captures.insert(last.fileID)
    }
    return captures
  }

  /// What was published last at one of a file's paths, under the name that this has by itself or under one that a template gave. Blocks.
  /// Nil where nothing was. What versions before have published has the name of its path where no template has ever given names.
  package func former(
    at paths: [RelativePath], areCalledAsPaths: Bool = false, called name: (RelativePath) -> String
  ) throws(StorageError) -> FormerPublication? {
    learnEarlierNames()
    var latest: FormerPublication?
    for path in paths {
      let name = name(path)
      let asked = mayBeKnown(Name(name.utf8)) ? name : nil
      guard let known = try catalog.former(at: path, named: asked, areNamesPaths: areCalledAsPaths) else { continue }
      if let latest, latest.origin.modifiedNanoseconds >= known.origin.modifiedNanoseconds { continue }
      latest = known
    }
    return latest
  }

  /// What a capture is called at the server that was to be published under the name; nil where the record says nothing of it, or cannot be
  /// read now. Blocks for the catalog.
  func published(_ name: String, by file: FileID) -> String? {
    let key = Name(name.utf8)
    guard mayBeKnown(key) else { return nil }
    var publication = state.withLock { $0.unsaved[key]?.publication }
    if publication == nil {
      do throws(StorageError) {
        publication = try catalog.publications(named: name).last
      } catch {
        return nil
      }
    }
    guard let publication, publication.fileID == file else { return nil }
    return publication.publishedAs ?? name
  }

  /// Something may have been published under the name.
  private func mayBeKnown(_ name: Name) -> Bool {
    state.withLock { $0.earlierNames != .areIn || $0.names.mayContain(name) }
  }

  /// Once. From a catalog that cannot be read at this moment the next one that asks learns them, and it is asked for each name until then.
  private func learnEarlierNames() {
    guard state.withLock({ $0.earlierNames == .unread }) else { return }
    let names: [[UInt8]]?
    do throws(StorageError) {
      names = try catalog.publishedNames(countMax: Self.earlierNamesMax)
    } catch {
      return
    }
    state.withLock { state in
      // What came meanwhile is in it.
      for name in names ?? [] { state.names.insert(name) }
      state.earlierNames = names == nil ? .tooMany : .areIn
    }
  }

  /// From a disk that fails captures are to get away: without the record the name counts as another one's, which costs a number. What
  /// would be refused then waits instead.
  private func recorded(
    _ name: String, _ ifExists: FileSettings.IfExists
  ) throws(StorageError) -> RecordedPublications {
    do throws(StorageError) {
      return try catalog.publications(named: name)
    } catch {
      guard ifExists == .number else { throw error }
      return RecordedPublications()
    }
  }

  /// A request goes out that is to publish these.
  package func begins(_ request: HTTPRequestID, _ publications: [Sent]) {
    guard !publications.isEmpty else { return }
    state.withLock { state in
      state.inFlight[request] = publications.map { sent in
        let name = Name(sent.name.utf8)
        let isNew = state.names.insert(name)
        return InFlight(name: name, publication: sent.publication, isOfNewName: isNew && state.earlierNames == .areIn)
      }
    }
  }

  /// Records what requests are to publish that have begun and are not sent yet, also where that takes its name from whatever has it: the
  /// next start may have other settings. Blocks for a write, and for no sync of the disk. From a disk that does not take it captures get
  /// away all the same.
  package func recordBegun(_ requests: [HTTPRequestID]) {
    let (begun, last) = state.withLock { state in
      let begun = requests.flatMap { request in
        (state.inFlight[request] ?? []).enumerated().map { (request, $0.offset, $0.element) }
      }
      return (begun, state.lastIntent)
    }
    let wanted = begun.map { _, _, sent in
      PublicationIntent(
        name: String(decoding: sent.name, as: UTF8.self), publication: sent.publication,
        isOfNewName: sent.isOfNewName)
    }
    guard !wanted.isEmpty else { return }
    let recorded: [RecordedIntent]
    do throws(StorageError) {
      recorded = try catalog.begin(wanted, after: last)
    } catch {
      // The journal, which meets the same disk, says what is wrong with it.
      return
    }
    state.withLock { state in
      state.lastIntent = max(state.lastIntent, recorded.last?.number ?? 0)
      for ((request, position, _), intent) in zip(begun, recorded) {
        state.inFlight[request]?[position].intent = intent
      }
    }
  }

  /// What came of a request.
  package func ended(_ request: HTTPRequestID, _ outcome: StepOutcome) {
    state.withLock { state in
      let sent = state.inFlight.removeValue(forKey: request) ?? []
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
    _ request: HTTPRequestID, _ sent: InFlight?, _ outcome: StepOutcome, _ state: inout State
  ) {
    switch outcome {
    case .published(let receipt):
      let name = sent?.name ?? Name(receipt.name.utf8)
      guard var publication = EarlierPublication(receipt, sent: sent?.publication) else { return }
      state.names.insert(name)
      if sent == nil {
        guard let unclear = state.open(name).last(where: publication.isSameContent) else {
          state.asked[name] = ((state.asked[name] ?? []) + [publication]).suffix(Self.publicationsMax)
          if state.asked.count > Self.unclearNamesMax { state.asked.removeFirst() }
          return
        }
        (publication.nonce, publication.chunkBytes, publication.origin) = (
          unclear.nonce, unclear.chunkBytes, unclear.origin
        )
      }
      // The one that was asked for last is the one that stays, however late the answers come.
      if let noted = state.unsaved[name], noted.request.value > request.value { return }
      state.unsaved[name] = Noted(
        request: request, publication: publication, intent: sent?.intent, receiptID: receipt.id,
        atMilliseconds: receipt.publishedAtMilliseconds)
      state.unclear[name] = nil
    case .refused(let failure) where failure.kind.mayHavePublished:
      guard let sent else { return }
      var known = state.unclear.removeValue(forKey: sent.name) ?? []
      known.removeAll { $0 == sent.publication }
      known.append(sent.publication)
      state.unclear[sent.name] = known.suffix(Self.publicationsMax)
      if state.unclear.count > Self.unclearNamesMax { state.unclear.removeFirst() }
    case .refused:
      guard let intent = sent?.intent, intent.isFirst, state.ended.count < Self.endedMax else { return }
      state.ended.append(intent.number)
    default: break
    }
  }

  /// What the catalog is to hold as well.
  func unsaved() -> PublicationNotes {
    state.withLock { state in
      PublicationNotes(
        published: state.unsaved.map {
          .init(
            name: String(decoding: $0.key, as: UTF8.self), publication: $0.value.publication, intent: $0.value.intent,
            receiptID: $0.value.receiptID, atMilliseconds: $0.value.atMilliseconds)
        },
        asked: state.asked.flatMap { name, asked in
          asked.map { PublicationIntent(name: String(decoding: name, as: UTF8.self), publication: $0) }
        }, ended: state.ended)
    }
  }

  /// The catalog has these.
  func saved(_ notes: PublicationNotes) {
    let saved = Dictionary(notes.published.map { (Name($0.name.utf8), $0.publication) }) { $1 }
    let asked = Dictionary(grouping: notes.asked) { Name($0.name.utf8) }
    state.withLock { state in
      // One that came meanwhile stays.
      state.unsaved = state.unsaved.filter { name, noted in saved[name] != noted.publication }
      for (name, intents) in asked {
        let others = (state.asked[name] ?? []).filter { known in !intents.contains { $0.publication == known } }
        state.asked[name] = others.isEmpty ? nil : others
      }
      state.ended.removeFirst(min(notes.ended.count, state.ended.count))
    }
  }

  /// Writes it there at once.
  package func save(in catalog: Catalog) throws(StorageError) {
    let notes = unsaved()
    try catalog.write([], removing: [], publications: notes)
    saved(notes)
  }
}

extension PublicationIndex.Sent {
  /// What a step is to publish, from which paths of the spool, one for each file of it, and under which names.
  package static func all(
    of step: DestinationStep, from paths: [RelativePath], keepsNonces: Bool = false,
    called name: (RelativePath) -> String
  ) -> [Self] {
    let sent: [(name: RelativePath, modified: Int64, publication: EarlierPublication?)] =
      switch step {
      case .commit(let commit): [(commit.path, commit.modifiedNanoseconds, EarlierPublication(commit))]
      case .wholeFile(let sending): [Self.sent(sending)]
      case .bundle(let sendings): sendings.map { Self.sent($0) }
      case .prewarm, .openSession, .querySession, .secureSession, .chunk, .run, .zeros, .abort: []
      }
    return zip(sent, paths).compactMap { sent, path in
      guard var publication = sent.publication else { return nil }
      if !keepsNonces { publication.nonce = nil }
      publication.origin = PublicationOrigin(path: path, name: sent.name, modifiedNanoseconds: sent.modified)
      return Self(name: name(sent.name), publication: publication)
    }
  }

  private static func sent(
    _ sending: WholeFileSending
  ) -> (name: RelativePath, modified: Int64, publication: EarlierPublication?) {
    (sending.path, sending.modifiedNanoseconds, EarlierPublication(sending))
  }
}

extension EarlierPublication {
  /// What a commit is to publish; nil of a file without an identity.
  init?(_ commit: SessionCommit) {
    guard let file = commit.fileID else { return nil }
    self.init(
      fileID: file, merkleRoot: Hex.encode(commit.merkleRoot), sizeBytes: commit.sizeBytes,
      chunkBytes: commit.chunkBytes, nonce: commit.session.nonce)
  }

  /// What a request with a whole file is to publish. Of one that is read while it is sent the digests are not known yet: its nonce stands
  /// in the root's place, so that two tries are told apart.
  init(_ sending: WholeFileSending) {
    if let stream = sending.stream {
      self.init(
        fileID: sending.fileID, merkleRoot: Hex.encode(sending.nonce), sizeBytes: UInt64(clamping: stream.byteCount),
        chunkBytes: nil, nonce: sending.nonce)
      return
    }
    var tree = MerkleTree()
    if sending.plainBytes > 0 { tree.append(sending.digest.sha256) }
    self.init(
      fileID: sending.fileID, merkleRoot: Hex.encode(tree.root), sizeBytes: UInt64(clamping: sending.plainBytes),
      chunkBytes: max(1, sending.plainBytes), nonce: sending.nonce)
  }

  /// What a receipt says was published; nil where neither it nor the request says of which capture.
  fileprivate init?(_ receipt: Receipt, sent: EarlierPublication?) {
    guard let file = receipt.fileID ?? sent?.fileID else { return nil }
    self.init(
      fileID: file, merkleRoot: receipt.merkleRoot, sizeBytes: receipt.sizeBytes, chunkBytes: sent?.chunkBytes,
      publishedAs: receipt.publishedAs, nonce: sent?.nonce, receiptID: sent?.nonce == nil ? nil : receipt.id,
      origin: sent?.origin)
  }
}

extension StepFailure.Kind {
  /// The server may have published what it was asked to, or may do so still.
  fileprivate var mayHavePublished: Bool {
    switch self {
    // A disk of the server may have failed behind the publication.
    case .conflict, .busy, .insufficientStorage, .transport(.cancelled), .transport(.stopped): true
    default: leavesOpenWhatBecameOfIt
    }
  }
}
