public import FileModel
import Glibc
import Synchronization
public import TransferModel

/// Where the status of files comes from. Called on filesystem threads: answers come from memory, at once.
public protocol StatusSource: Sendable {
  /// A file's status; nil when it is not known (any more).
  func status(of id: FileID) -> FileStatus?
  func summary() -> MountSummary
  /// Returns once it is known which files earlier runs have left, or that this is not to be known soon; may wait for the local disk,
  /// never for the network.
  func waitWhileLoading()
  /// Memory does not hold all files.
  var isBeyondMemory: Bool { get }
  /// Loads the file at a path of the spool, should memory not hold it; may wait for the local disk. False where nothing was loaded.
  func load(at path: RelativePath) -> Bool
  /// What stands in a folder of the spool, where memory does not hold all files; may wait for the local disk.
  func spoolEntries(of folder: RelativePath) -> [SpoolEntry]?
  /// Files that memory does not hold, after an identity, in the order of these; may wait for the local disk. Nil where it does not say.
  func unloadedFiles(after id: FileID, countMax: Int) -> UnloadedPage?
  /// Executes the command that a user has written to a file's status; durable on return. May wait for the local disk.
  func execute(_ order: FileOrder, on id: FileID) throws(FileOrderRefusal)
}

extension StatusSource {
  /// Memory holds everything.
  public var isBeyondMemory: Bool { false }
  /// Likewise.
  public func load(at path: RelativePath) -> Bool { false }
  /// Likewise.
  public func spoolEntries(of folder: RelativePath) -> [SpoolEntry]? { nil }
  /// Likewise.
  public func unloadedFiles(after id: FileID, countMax: Int) -> UnloadedPage? { UnloadedPage() }
  /// Everything is known from the beginning.
  public func waitWhileLoading() {}
  /// Nothing can be wanted.
  public func execute(_ order: FileOrder, on id: FileID) throws(FileOrderRefusal) { throw .unknownFile }
}

/// A file of `.uploadfs/`: about the mount as a whole.
public struct ControlFile: Sendable {
  let name: [UInt8]
  let render: @Sendable () -> [UInt8]

  /// A file with a name; `render` makes its content for each reader. It is called on filesystem threads, so it must
  /// not block, and it must not depend on how many files there are.
  public init(_ name: String, render: @escaping @Sendable () -> [UInt8]) {
    self.name = Array(name.utf8)
    self.render = render
  }
}

/// The virtual files of the mount (docs/semantics.md, S30): `status/<path>.json` for every file, the short form
/// `status/<stem>.json` where it is unambiguous, the files of `.uploadfs/`, and the pages of `.uploadfs/files/` (``StatusPage``).
///
/// Where documents stand is kept here; what is in them is asked of the ``StatusSource`` for each reader. The source
/// is never called with a lock held.
public final class StatusTree: VirtualTree {
  private struct State {
    var index = StatusIndex()
    var versions: [FileID: UInt64] = [:]
    /// Numbers are never used twice, so a path that another file takes over has another version, too.
    var lastVersion: UInt64 = 0
    /// The sizes of the documents when they were last rendered, for listings.
    var sizes: [FileID: Int] = [:]

    mutating func bump(_ id: FileID) {
      lastVersion += 1
      versions[id] = lastVersion
    }
  }

  private static let statusName = Array("status".utf8)[...]
  private static let controlName = Array(".uploadfs".utf8)[...]
  /// Below that: pages are opened by their names, and not listed.
  private static let listName = Array("files".utf8)
  /// What most documents come to; see ``entries(of:)``.
  private static let usualSizeBytes = 2 * StatusDocument.unitBytes

  private let source: any StatusSource
  private let controlFiles: [ControlFile]
  private let state = Mutex(State())
  /// Held while names are asked for and shown, so that what was read last is what stands there in the end.
  private let order = Mutex(())
  private let notifier: ChangeNotifier

  /// A tree without files.
  ///
  /// - Parameters:
  ///   - source: What is said of each file.
  ///   - controlFiles: The files of `.uploadfs/`, whose content changes with any file's.
  ///   - notificationInterval: The shortest time between two calls of the observer.
  public init(
    source: any StatusSource, controlFiles: [ControlFile],
    notificationInterval: Duration = UploadConstants.progressInterval
  ) {
    self.source = source
    self.controlFiles = controlFiles.sorted { $0.name.lexicographicallyPrecedes($1.name) }
    notifier = ChangeNotifier(interval: notificationInterval)
  }

  deinit { notifier.stop() }

  /// Ends the thread that calls the observer.
  public func stop() { notifier.stop() }

  // MARK: - Files

  /// States every name of a file, the first of which is the one that its document is about. Without any name the file is
  /// removed; a file that lost its last name and should stay visible is stated with that name, which is a former one.
  public func update(id: FileID, paths: [RelativePath], areFormer: Bool = false) {
    guard !paths.isEmpty else { return remove(id: id) }
    state.withLock { state in
      state.index.update(id, paths, areFormer: areFormer)
      state.bump(id)
    }
    notifier.note()
  }

  /// Shows a file under the names that it has now, whichever thread asks, and in whatever order.
  func show(_ id: FileID, as names: () -> UploadSchedule.ShownPaths) {
    order.withLock { _ in
      let names = names()
      if !names.paths.isEmpty { update(id: id, paths: names.paths, areFormer: names.areFormer) }
    }
  }

  /// Drops the documents of a file that one engine knows no more, unless another destination's still does.
  func removeIfUnknown(id: FileID) {
    order.withLock { _ in
      if source.status(of: id) == nil { remove(id: id) } else { changed(id: id) }
    }
  }

  /// Drops a file's documents.
  public func remove(id: FileID) {
    state.withLock { state in
      state.index.update(id, [])
      state.versions[id] = nil
      state.sizes[id] = nil
      // For what is about the mount as a whole.
      state.lastVersion += 1
    }
    notifier.note()
  }

  /// States that a file's status has changed.
  public func changed(id: FileID) {
    state.withLock { state in
      if state.index.contains(id) { state.bump(id) }
    }
    notifier.note()
  }

  /// States that the mount as a whole has changed without any file.
  public func mountChanged() {
    state.withLock { state in state.lastVersion += 1 }
    notifier.note()
  }

  // MARK: - VirtualTree

  /// `status` and `.uploadfs`.
  public var topLevelNames: [[UInt8]] { [Array(Self.statusName), Array(Self.controlName)] }

  /// What a document, or a folder of documents, is about. Short forms lead to documents, which are asked then.
  public func subject(of path: RelativePath) -> VirtualSubject? {
    switch place(of: path) {
    case .document(let id): .file(id, last: source.status(of: id)?.ownership)
    case .directory where path.components.first == Self.statusName:
      .folder(RelativePath(bytes: Array(path.components.dropFirst().joined(separator: [UInt8(ascii: "/")]))))
    // Any name is found there, and the mount keeps a node of each: other users must not look names up.
    case .directory where path.components.count > 1: .everyFile
    case .directory, .control: .folder(.root)
    case .page: .everyFile
    case .link, nil: nil
    }
  }

  /// A folder of documents stands for it.
  public func hasDocuments(below folder: RelativePath) -> Bool {
    state.withLock { $0.index.find(folder.components[...]) == .directory }
  }

  /// What stands at a path, with the true size of a document.
  public func node(at path: RelativePath) -> VirtualNode? {
    switch place(of: path) {
    case .directory: .directory
    case .link(let target, _): .link(target: target)
    case .document(let id): document(id).map { .file(sizeBytes: $0.count) }
    case .control(let file): .file(sizeBytes: file.render().count)
    // It is made when it is opened.
    case .page: .file(sizeBytes: Self.usualSizeBytes)
    case nil: nil
    }
  }

  /// The entries of a directory in byte order.
  ///
  /// The size of a document is that of its last rendering, or what most of them have: rendering 100,000 documents for
  /// one listing would hold the caller up for seconds. ``node(at:)`` has the true one.
  public func entries(of directory: RelativePath) -> [VirtualEntry] {
    let components = directory.components
    guard let first = components.first else { return [] }
    if first == Self.controlName {
      guard components.count == 1 else { return [] }
      return controlFiles.map { VirtualEntry(name: $0.name, node: .file(sizeBytes: $0.render().count)) }
    }
    guard first == Self.statusName else { return [] }
    let known = state.withLock { state in
      let entries = state.index.entries(components.dropFirst()) ?? []
      return entries.map { entry in
        switch entry.found {
        case .directory: VirtualEntry(name: entry.name, node: .directory)
        case .document(let id):
          VirtualEntry(name: entry.name, node: .file(sizeBytes: state.sizes[id] ?? Self.usualSizeBytes))
        case .link(let target, _): VirtualEntry(name: entry.name, node: .link(target: target))
        }
      }
    }
    let folder = RelativePath(bytes: Array(components.dropFirst().joined(separator: [UInt8(ascii: "/")])))
    guard let inSpool = source.spoolEntries(of: folder) else { return known }
    return Self.add(inSpool, to: known)
  }

  /// Files that memory does not hold have documents as well.
  private static func add(_ entries: [SpoolEntry], to known: [VirtualEntry]) -> [VirtualEntry] {
    let names = Set(known.map(\.name))
    let further = entries.compactMap { entry -> VirtualEntry? in
      let name = entry.isFolder ? entry.name : entry.name + StatusIndex.suffix
      let node: VirtualNode = entry.isFolder ? .directory : .file(sizeBytes: usualSizeBytes)
      return names.contains(name) ? nil : VirtualEntry(name: name, node: node)
    }
    return (known + further).sorted { $0.name.lexicographicallyPrecedes($1.name) }
  }

  /// A copy of a document, rendered from one consistent status.
  public func contents(of path: RelativePath) -> [UInt8]? {
    switch place(of: path) {
    case .document(let id): document(id)
    case .control(let file): file.render()
    case .page(let id): page(after: id)
    case .directory, .link, nil: nil
    }
  }

  /// Words can be written to the status of a file that is in the spool.
  public func isWritable(_ path: RelativePath) -> Bool {
    guard case .document(let id) = place(of: path) else { return false }
    return source.status(of: id)?.isLocal == true
  }

  /// Obeys a word for a file (``FileOrder``).
  public func write(_ bytes: [UInt8], to path: RelativePath) throws(VirtualWriteRefusal) {
    guard case .document(let id) = place(of: path), let order = FileOrder(bytes) else {
      throw VirtualWriteRefusal(errno: EINVAL)
    }
    do throws(FileOrderRefusal) {
      try source.execute(order, on: id)
    } catch {
      throw VirtualWriteRefusal(error)
    }
  }

  /// Rises with every change of what a path shows; 0 for a path that shows nothing.
  public func version(of path: RelativePath) -> UInt64 {
    let place = place(of: path)
    return state.withLock { state in
      switch place {
      case .document(let id), .link(_, let id): state.versions[id] ?? 0
      case .control, .directory: state.lastVersion
      // Read once, from its beginning to its end: a new one is made for who opens it anew.
      case .page: 1
      case nil: 0
      }
    }
  }

  /// Registers the observer, in the place of an earlier one.
  public func observeChanges(_ observer: @escaping @Sendable () -> Void) {
    notifier.observe(observer)
  }

  // MARK: - Places and documents

  private enum Place {
    case directory
    case document(FileID)
    case link(target: [UInt8], FileID)
    case control(ControlFile)
    /// A page of the list of all files, with those after an identity.
    case page(after: FileID)
  }

  private func place(of path: RelativePath) -> Place? {
    let components = path.components
    switch components.first {
    case Self.statusName: return statusPlace(components.dropFirst())
    case Self.controlName:
      if components.count == 1 { return .directory }
      if components[1].elementsEqual(Self.listName) {
        guard components.count == 3 else { return components.count == 2 ? .directory : nil }
        return FileID(String(decoding: components[2], as: UTF8.self)).map { .page(after: $0) }
      }
      guard components.count == 2 else { return nil }
      return controlFiles.first { components[1].elementsEqual($0.name) }.map { .control($0) }
    default: return nil
    }
  }

  private func statusPlace(_ components: ArraySlice<ArraySlice<UInt8>>) -> Place? {
    var found = state.withLock { $0.index.find(components) }
    if found == nil {
      // It may be known once the catalog has been read: a file that was just created, or one of an earlier run.
      source.waitWhileLoading()
      found = state.withLock { $0.index.find(components) }
    }
    if source.isBeyondMemory, !isOfFileThatIsThere(found), let path = Self.capture(of: components),
      source.load(at: path)
    {
      found = state.withLock { $0.index.find(components) }
    }
    switch found {
    case .directory: return .directory
    case .document(let id): return .document(id)
    case .link(let target, let id): return .link(target: target, id)
    case nil:
      let folder = RelativePath(bytes: Array(components.joined(separator: [UInt8(ascii: "/")])))
      return source.spoolEntries(of: folder) == nil ? nil : .directory
    }
  }

  /// Nothing else is to be shown there.
  private func isOfFileThatIsThere(_ found: StatusIndex.Found?) -> Bool {
    switch found {
    case .directory: true
    case .document(let id), .link(_, let id): source.status(of: id)?.isLocal == true
    case nil: false
    }
  }

  /// The path of the capture that a document is about, by its own name.
  private static func capture(of components: ArraySlice<ArraySlice<UInt8>>) -> RelativePath? {
    let path = Array(components.joined(separator: [UInt8(ascii: "/")]))
    guard path.count > StatusIndex.suffix.count, path.suffix(StatusIndex.suffix.count).elementsEqual(StatusIndex.suffix)
    else { return nil }
    return RelativePath(bytes: path.dropLast(StatusIndex.suffix.count))
  }

  /// What is known of the files after an identity.
  ///
  /// Memory is asked before the catalog. So what is unloaded meanwhile is in both, and what is loaded is asked for once more.
  private func page(after id: FileID) -> [UInt8]? {
    source.waitWhileLoading()
    let wasBeyondMemory = source.isBeyondMemory
    let shown = state.withLock { $0.index.files(after: id, countMax: StatusPage.filesMax) }
    var unloaded = UnloadedPage()
    if wasBeyondMemory || source.isBeyondMemory {
      guard let page = source.unloadedFiles(after: id, countMax: StatusPage.filesMax) else { return nil }
      unloaded = page
    }
    let end = [shown.count < StatusPage.filesMax ? nil : shown.last, unloaded.last].compactMap { $0 }.min()
    var page = StatusPage(after: end)
    var listed: Set<FileID> = []
    // They have left memory since it was asked.
    var missed: Set<FileID> = []
    func isOfPage(_ id: FileID) -> Bool { id <= end ?? id && !listed.contains(id) }
    for id in shown where isOfPage(id) {
      if add(id, to: &page) { listed.insert(id) } else { missed.insert(id) }
    }
    for file in unloaded.files where isOfPage(file.id) { page.files.append(ListedFile(file)) }
    for other in unloaded.others where isOfPage(other.id) {
      if other.isToLoad || missed.contains(other.id) { _ = source.load(at: other.path) }
      add(other.id, to: &page)
    }
    return page.bytes
  }

  /// A line for each name. False where memory does not hold the file.
  @discardableResult
  private func add(_ id: FileID, to page: inout StatusPage) -> Bool {
    guard let status = source.status(of: id) else { return false }
    let (paths, isHeld) = state.withLock { ($0.index.shownPaths(of: id), $0.index.contains(id)) }
    page.files += paths.map { ListedFile(status, at: $0) }
    return isHeld
  }

  private func document(_ id: FileID) -> [UInt8]? {
    guard let status = source.status(of: id) else { return nil }
    let bytes = StatusDocument.render(status)
    state.withLock { state in
      if state.index.contains(id), state.sizes[id] ?? Self.usualSizeBytes != bytes.count {
        state.sizes[id] = bytes.count
      }
    }
    return bytes
  }
}

extension VirtualWriteRefusal {
  fileprivate init(_ refusal: FileOrderRefusal) {
    switch refusal {
    case .doesNotApply, .unknownDestination: self.init(errno: EINVAL)
    case .unknownFile: self.init(errno: ENOENT)
    case .ending: self.init(errno: EROFS)
    case .notDurable(let error):
      switch error.kind {
      case .full: self.init(errno: ENOSPC)
      case .system(let errno): self.init(errno: errno)
      case .inUse, .damaged, .newerVersion, .closed, .invalid: self.init(errno: EIO)
      }
    }
  }
}
