import FileModel

/// What an inode is, as far as the namespace cares.
enum NodeKind: Hashable, Sendable {
  case directory
  case regular
  /// A symbolic link, FIFO or socket.
  case other
}

/// The inodes that the kernel or the catalog may ask for, and the names by which they are reached.
///
/// A pure value without system calls: `Filesystem` keeps it in step with the spool. Nodes of directories and special
/// files live while the kernel knows them or something below them is known; nodes of regular files live as long as the
/// file has a name, because their ``CapturedFile`` carries the identity and the epoch.
struct NodeTable {
  /// One inode.
  struct Node {
    let key: SpoolKey
    let kind: NodeKind
    /// The sink does not ask for the file by its identity any more: it may go once the kernel does not know it.
    fileprivate(set) var isUnneeded = false
    /// Every known name, oldest first. Empty for the root and for what was unlinked.
    var names: SmallArray<DirectoryEntry> = []
    /// Known entries, for directories.
    var children: [EntryName: NodeID] = [:]
    /// How often the kernel was told of it and has not yet forgotten.
    var lookups: UInt64 = 0
    /// Present for regular files.
    var file: CapturedFile?
    /// Keeps an inode without a name reachable as long as the kernel knows it; see ``NodeTable/pin(_:by:)``.
    fileprivate(set) var pin: FileDescriptor?
  }

  private var nodes: [NodeID: Node] = [:]
  private var byKey: [SpoolKey: NodeID] = [:]
  private var byFile: [FileID: NodeID] = [:]
  private var nextNumber = NodeID.root.rawValue + 1
  /// Files that still have names which were not looked up yet; see ``keepReachable(_:)``.
  private var keepsKeyWithoutName: Set<NodeID> = []

  /// The regular files among the pinned nodes, the longest pinned first.
  private var pinnedFiles: [NodeID] = []
  /// The kernel forgets a file without a name as soon as it is not used, so that few are pinned at a time, unless a program
  /// collects O_PATH descriptors. Each costs a descriptor and its blocks; beyond this many the longest pinned goes.
  static let pinnedFilesMax = 256

  /// Pins of nodes that need them no more, until they are closed outside of the lock.
  private var released: [FileDescriptor] = []

  /// A namespace that holds only the root.
  init(root: SpoolKey) {
    nodes[.root] = Node(key: root, kind: .directory, lookups: 1)
    byKey[root] = .root
  }

  // MARK: Reading

  subscript(id: NodeID) -> Node? { nodes[id] }

  var count: Int { nodes.count }

  func node(of key: SpoolKey) -> NodeID? { byKey[key] }

  func file(of key: SpoolKey) -> CapturedFile? { byKey[key].flatMap { nodes[$0]?.file } }

  func node(of file: FileID) -> NodeID? { byFile[file] }

  func child(of directory: NodeID, named name: EntryName) -> NodeID? { nodes[directory]?.children[name] }

  /// Whether a node is this inode. A number may be given to something of another kind.
  func matches(_ id: NodeID, _ key: SpoolKey, _ kind: NodeKind) -> Bool {
    nodes[id]?.key == key && nodes[id]?.kind == kind
  }

  /// The folders that lead to one, and that one, from the root down, as entries; empty where it stands nowhere.
  func folders(to id: NodeID) -> [DirectoryEntry] {
    var reversed: [DirectoryEntry] = []
    var current = id
    while current != .root {
      guard let entry = nodes[current]?.names.first, reversed.count <= nodes.count else { return [] }
      reversed.append(entry)
      current = entry.directory
    }
    return reversed.reversed()
  }

  /// Every known name of an inode of the spool.
  func names(of key: SpoolKey) -> [DirectoryEntry] { byKey[key].flatMap { nodes[$0]?.names }.map { Array($0) } ?? [] }

  /// Whether a node has a name, known or still to be found.
  func isNamed(_ id: NodeID) -> Bool {
    guard let node = nodes[id] else { return false }
    return !node.names.isEmpty || keepsKeyWithoutName.contains(id)
  }

  /// The components from the root to a node, by its oldest name; nil when it stands nowhere.
  func components(of id: NodeID) -> [EntryName]? {
    var reversed: [EntryName] = []
    var current = id
    // A cycle cannot arise through moves that the spool accepted; the bound keeps a damaged table from looping.
    while current != .root {
      guard let entry = nodes[current]?.names.first, reversed.count <= nodes.count else { return nil }
      reversed.append(entry.name)
      current = entry.directory
    }
    return reversed.reversed()
  }

  /// Every path of a node, oldest first.
  func paths(of id: NodeID) -> [RelativePath] {
    guard let node = nodes[id] else { return [] }
    // As long as they are and no longer: both are kept for each file.
    var paths: [RelativePath] = []
    paths.reserveCapacity(node.names.count)
    for entry in node.names {
      guard let parents = components(of: entry.directory) else { continue }
      var bytes: [UInt8] = []
      bytes.reserveCapacity(parents.reduce(entry.name.bytes.count) { $0 + $1.bytes.count + 1 })
      for parent in parents {
        bytes += parent.bytes
        bytes.append(UInt8(ascii: "/"))
      }
      bytes += entry.name.bytes
      paths.append(RelativePath(bytes: bytes))
    }
    return paths
  }

  /// The regular files that are known at or below a node.
  func files(below id: NodeID) -> [CapturedFile] {
    var found: [CapturedFile] = []
    var pending = [id]
    while let next = pending.popLast(), let node = nodes[next] {
      if let file = node.file { found.append(file) }
      pending += node.children.values
    }
    return found
  }

  /// Every regular file that is known.
  var allFiles: [CapturedFile] { nodes.values.compactMap(\.file) }

  // MARK: Names

  /// Learns that `name` in `directory` is the inode `key`, and returns its node. `makeFile` is called once per regular
  /// file.
  mutating func adopt(
    _ key: SpoolKey, kind: NodeKind, at entry: DirectoryEntry, makeFile: (NodeID) -> CapturedFile
  ) -> NodeID {
    if let known = nodes[entry.directory]?.children[entry.name] {
      if nodes[known]?.key == key, nodes[known]?.kind == kind { return known }
      // Another program changed the spool; what stood here does so no longer.
      removeName(entry)
    }
    if let known = byKey[key], nodes[known]?.kind == kind {
      if kind == .directory, let old = nodes[known]?.names.first { removeName(old) }
      addName(entry, to: known)
      // Losing its only name took the key away.
      byKey[key] = known
      keepsKeyWithoutName.remove(known)
      return known
    }
    let id = NodeID(rawValue: nextNumber)
    nextNumber += 1
    nodes[id] = Node(key: key, kind: kind)
    byKey[key] = id
    if kind == .regular {
      let file = makeFile(id)
      nodes[id]?.file = file
      byFile[file.id] = id
    }
    addName(entry, to: id)
    return id
  }

  /// A regular file that no lookup finds before it gets a name: until then it is known by its number only. The kernel
  /// is about to be told of it.
  mutating func adoptTmpfile(
    _ key: SpoolKey, pin descriptor: FileDescriptor, makeFile: (NodeID) -> CapturedFile
  ) -> CapturedFile {
    let id = NodeID(rawValue: nextNumber)
    nextNumber += 1
    let file = makeFile(id)
    nodes[id] = Node(key: key, kind: .regular, lookups: 1, file: file)
    byFile[file.id] = id
    pin(id, by: descriptor)
    return file
  }

  /// After a successful linkat(2) of such a file. The kernel is about to be told of it once more.
  mutating func giveFirstName(_ entry: DirectoryEntry, to id: NodeID) {
    guard let key = nodes[id]?.key else { return }
    // What stood there was taken away by hand, or what had the spool's number for this file.
    removeName(entry)
    for stale in names(of: key) { removeName(stale) }
    addName(entry, to: id)
    byKey[key] = id
    countLookup(id)
  }

  /// One more name of a known node.
  mutating func addName(_ entry: DirectoryEntry, to id: NodeID) {
    guard nodes[id] != nil, nodes[entry.directory] != nil else { return }
    nodes[entry.directory]?.children[entry.name] = id
    nodes[id]?.names.append(entry)
    unpin(id)
  }

  /// Takes a name away, when it is known. The node stays while the kernel knows it, reachable only by its number.
  @discardableResult
  mutating func removeName(_ entry: DirectoryEntry) -> NodeID? {
    guard let id = nodes[entry.directory]?.children.removeValue(forKey: entry.name) else { return nil }
    nodes[id]?.names.removeAll { $0 == entry }
    freeNumber(of: id)
    freeNumber(of: entry.directory)
    dropIfUnused(id)
    dropIfUnused(entry.directory)
    return id
  }

  /// The spool may give the number of what has no name to something else. A folder keeps it while anything below it is known: when
  /// another program has only moved it, it has to become this node again, or what is below would have a name in each of two.
  private mutating func freeNumber(of id: NodeID) {
    guard id != .root, let node = nodes[id], node.names.isEmpty, node.children.isEmpty, byKey[node.key] == id,
      !keepsKeyWithoutName.contains(id)
    else { return }
    byKey[node.key] = nil
  }

  /// The spool has given this number to something new: what had it before was taken away by hand.
  mutating func numberIsGivenAnew(_ key: SpoolKey) {
    for stale in names(of: key) { removeName(stale) }
    if let id = byKey[key], nodes[id]?.kind == .directory { byKey[key] = nil }
  }

  /// The inode has further names that are not known yet: when one turns up it must become this node again.
  mutating func keepReachable(_ id: NodeID) {
    keepsKeyWithoutName.insert(id)
  }

  /// After a successful rename in the spool. What stood at the new name is returned; it has lost that name.
  mutating func move(_ from: DirectoryEntry, to: DirectoryEntry) -> NodeID? {
    guard let moved = nodes[from.directory]?.children[from.name] else { return nil }
    // The directory that loses the entry must not be dropped before the one that gains it holds it.
    let replaced = removeName(to)
    nodes[from.directory]?.children[from.name] = nil
    nodes[to.directory]?.children[to.name] = moved
    if let index = nodes[moved]?.names.firstIndex(of: from) { nodes[moved]?.names[index] = to }
    dropIfUnused(from.directory)
    return replaced
  }

  /// After a successful exchange in the spool.
  mutating func exchange(_ one: DirectoryEntry, _ other: DirectoryEntry) {
    guard let first = nodes[one.directory]?.children[one.name],
      let second = nodes[other.directory]?.children[other.name]
    else { return }
    nodes[one.directory]?.children[one.name] = second
    nodes[other.directory]?.children[other.name] = first
    if let index = nodes[first]?.names.firstIndex(of: one) { nodes[first]?.names[index] = other }
    if let index = nodes[second]?.names.firstIndex(of: other) { nodes[second]?.names[index] = one }
  }

  // MARK: What the kernel knows

  /// The kernel is about to be told of the node once more.
  mutating func countLookup(_ id: NodeID) {
    nodes[id]?.lookups &+= 1
  }

  /// The kernel has forgotten `count` of the times that it was told.
  mutating func forget(_ id: NodeID, count: UInt64) {
    guard id != .root, let known = nodes[id]?.lookups else { return }
    nodes[id]?.lookups = known > count ? known - count : 0
    dropIfUnused(id)
  }

  /// The sink does not ask for a file by its identity any more, or does again.
  mutating func setUnneeded(_ id: NodeID, _ isUnneeded: Bool = true) { nodes[id]?.isUnneeded = isUnneeded }

  /// Forgets a regular file that stands where it stood. False where the kernel knows it, or it has other names.
  mutating func letGo(of id: NodeID) -> Bool {
    guard let node = nodes[id], node.kind == .regular, node.lookups == 0, node.pin == nil, node.names.count == 1,
      let entry = node.names.first, !keepsKeyWithoutName.contains(id)
    else { return false }
    nodes[entry.directory]?.children[entry.name] = nil
    nodes[id] = nil
    if byKey[node.key] == id { byKey[node.key] = nil }
    if let file = node.file { byFile[file.id] = nil }
    freeNumber(of: entry.directory)
    dropIfUnused(entry.directory)
    return true
  }

  /// Keeps an inode without names open for as long as the kernel knows it.
  mutating func pin(_ id: NodeID, by descriptor: FileDescriptor) {
    guard let kind = nodes[id]?.kind else { return }
    unpin(id)
    nodes[id]?.pin = descriptor
    guard kind == .regular else { return }
    pinnedFiles.append(id)
    if pinnedFiles.count > Self.pinnedFilesMax { unpin(pinnedFiles[0]) }
  }

  /// Lets go of every regular file that has no name, whether or not the kernel may still open it.
  mutating func unpinFiles() {
    for id in pinnedFiles { unpin(id) }
  }

  private mutating func unpin(_ id: NodeID) {
    guard let node = nodes[id], let pin = node.pin else { return }
    nodes[id]?.pin = nil
    released.append(pin)
    if node.kind == .regular { pinnedFiles.removeAll { $0 == id } }
  }

  /// Pins that no node needs any more. The caller closes them when it holds no lock.
  mutating func takeReleased() -> [FileDescriptor] {
    guard !released.isEmpty else { return [] }
    defer { released = [] }
    return released
  }

  private mutating func dropIfUnused(_ start: NodeID) {
    var id = start
    while id != .root, let node = nodes[id], node.lookups == 0, node.children.isEmpty {
      unpin(id)
      if node.kind == .regular, !node.names.isEmpty || keepsKeyWithoutName.contains(id) { return }
      nodes[id] = nil
      if byKey[node.key] == id { byKey[node.key] = nil }
      if let file = node.file { byFile[file.id] = nil }
      for entry in node.names { nodes[entry.directory]?.children[entry.name] = nil }
      guard let parent = node.names.first?.directory else { return }
      freeNumber(of: parent)
      id = parent
    }
  }
}
