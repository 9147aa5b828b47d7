import CLinux
import ChunkProtocol
import Glibc
import ReceiverCore

/// Whole files that are published together. Each step is done for all of them before the next one begins, so that they
/// share the journal's sync and those of the folders; one that fails drops out, and the others go on.
struct WholeFileBatch {
  private struct Item {
    let file: WholeFilePublication
    var data: FileDescriptor?
    var place: PublishedTree.Place?
    var inode: UInt64 = 0
    var replacedBytes: UInt64 = 0
    var failure: StoreFailure?

    var receipt: PublicationReceipt {
      var receipt = file.publication.receipt
      receipt.publishedAs = place?.publishedAs
      return receipt
    }
  }

  /// Names are compared byte by byte, which `String` does not do.
  private struct FolderKey: Hashable {
    var credential: CredentialID
    var path: [UInt8]
  }

  private let store: FileStore
  private var items: [Item]
  /// The trees that the places are in.
  private var trees: [CredentialID: PublishedTree] = [:]
  private var folders: [FolderKey: PublishedTree.Folder] = [:]

  init(_ files: [WholeFilePublication], in store: FileStore) {
    self.store = store
    items = files.map { Item(file: $0) }
  }

  /// Publishes them; what came of each.
  mutating func publish() -> [Result<PublicationResult, StoreFailure>] {
    together { (batch) throws(StoreFailure) in try batch.store.requireState() }
    forEach { (item, batch) throws(StoreFailure) in try batch.write(&item) }
    forEach { (item, batch) throws(StoreFailure) in try batch.syncData(&item) }
    together { (batch) throws(StoreFailure) in
      try batch.store.reach(.dataSynced)
      try batch.recordIntents(of: batch.items.filter { $0.failure == nil })
    }
    forEach { (item, batch) throws(StoreFailure) in try batch.rename(&item) }
    syncFolders()
    // Moved away since, a file is not where its receipt would say.
    forEach { (item, batch) throws(StoreFailure) in
      try batch.store.requireState()
      try batch.tree(of: item)?.folder.requireInPlace()
    }
    together { (batch) throws(StoreFailure) in
      try batch.store.syncIncoming()
      try batch.store.reach(.renamed)
      batch.recordPublished()
      try batch.store.reach(.publishedRecorded)
    }
    return items.map { item in
      item.failure.map { .failure($0) }
        ?? .success(
          PublicationResult(
            replacedBytes: item.replacedBytes, publishedAs: item.place?.publishedAs, nameHolder: item.place?.holder,
            takenFrom: item.place?.takenFrom))
    }
  }

  // MARK: Who goes on

  private var isEmpty: Bool { items.allSatisfy { $0.failure != nil } }

  private mutating func forEach(_ step: (inout Item, inout WholeFileBatch) throws(StoreFailure) -> Void) {
    for index in items.indices where items[index].failure == nil {
      var item = items[index]
      do throws(StoreFailure) {
        try step(&item, &self)
      } catch {
        fail(&item, error)
      }
      items[index] = item
    }
  }

  private mutating func together(_ step: (inout WholeFileBatch) throws(StoreFailure) -> Void) {
    guard !isEmpty else { return }
    do throws(StoreFailure) {
      try step(&self)
    } catch {
      for index in items.indices where items[index].failure == nil { fail(&items[index], error) }
    }
  }

  /// Where the rename went well and only a folder could not be synced, the name is gone from here and nothing is removed.
  private func fail(_ item: inout Item, _ failure: StoreFailure) {
    item.failure = failure
    if item.data != nil, !store.isStopped { unlinkat(store.incoming.raw, item.receipt.id, 0) }
  }

  // MARK: Steps

  private mutating func write(_ item: inout Item) throws(StoreFailure) {
    let publication = item.file.publication
    let place = try place(of: publication)
    let data = try FileDescriptor.open(
      item.receipt.id, in: store.incoming, O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
    (item.place, item.data) = (place, data)
    try FileStore.write(item.file.body, to: data, at: 0)
    try data.setAttributes(of: publication)
    data.beginWriting()
  }

  private mutating func place(of publication: Publication) throws(StoreFailure) -> PublishedTree.Place {
    let tree = try store.tree(of: publication.credential)
    // Another one than a moment before: what was found in that is of no use.
    if let known = trees.updateValue(tree, forKey: publication.credential), known.root !== tree.root { folders = [:] }
    let name = try PublishedTree.split(publication.receipt.name)
    let key = FolderKey(credential: publication.credential, path: Array(name.folder.utf8))
    let folder: PublishedTree.Folder
    if let known = folders[key] {
      folder = known
    } else {
      folder = try tree.makeFolder(name.folder)
      folders[key] = folder
    }
    return try tree.place(for: publication, in: folder)
  }

  private func tree(of item: Item) -> PublishedTree? { trees[item.file.publication.credential] }

  private func syncData(_ item: inout Item) throws(StoreFailure) {
    guard let data = item.data else { throw .io("the file is gone") }
    item.inode = try store.syncData(data)
  }

  private func recordIntents(of items: [Item]) throws(StoreFailure) {
    try store.receipts.recordSynced(
      items.map { .wholeFile(.init(record: $0.file.record, receipt: $0.receipt, inode: $0.inode)) })
    try store.reach(.intentRecorded)
  }

  /// In a place that is looked for again where others were there first, or have taken the folder away (a curator).
  private mutating func rename(_ item: inout Item) throws(StoreFailure) {
    var move = PublishedTree.Move.overtaken
    for _ in 0..<PublishedTree.placesMax {
      guard let place = item.place, let tree = tree(of: item) else { throw .io("the file is gone") }
      move = try tree.move(item.receipt.id, from: store.incoming, to: place, item.file.publication)
      if case .done(let replacedBytes) = move {
        item.replacedBytes = replacedBytes
        return
      }
      if move == .folderGone { folders = [:] }
      item.place = try self.place(of: item.file.publication)
      // After a crash the file is looked for under the name that the last record says.
      if item.place?.publishedAs != place.publishedAs { try recordIntents(of: [item]) }
    }
    throw move.failure
  }

  /// A folder that cannot be synced fails the files in it.
  private mutating func syncFolders() {
    var synced: [ObjectIdentifier: Result<Void, StoreFailure>] = [:]
    forEach { (item, batch) throws(StoreFailure) in
      guard let folder = item.place?.folder else { return }
      let key = ObjectIdentifier(folder.directory)
      guard let tree = batch.tree(of: item) else { return }
      let result = synced[key] ?? Result { () throws(StoreFailure) in try tree.sync(folder) }
      synced[key] = result
      try result.get()
    }
  }

  private func recordPublished() {
    do throws(StoreFailure) {
      try store.receipts.record(
        items.filter { $0.failure == nil }.map { .wholeFilePublished(.init(receiptID: $0.receipt.id)) })
    } catch {
      // Without these records the next start checks the targets; a full disk must not undo a publication.
    }
  }
}
