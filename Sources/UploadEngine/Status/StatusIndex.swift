import FileModel

/// Which documents stand below `status/`, and which file each of them is about. Every look-up takes as many steps as the
/// path has components, however many files there are.
struct StatusIndex {
  /// What a name below `status/` leads to.
  enum Found: Hashable {
    case directory
    case document(FileID)
    /// A short form, with the path of the document below `status/`.
    case link(target: [UInt8], FileID)
  }

  /// A directory of captures: what stands in it by the captures' own names, without `.json`.
  private final class Directory {
    var slots: [ArraySlice<UInt8>: Slot] = [:]
    /// The listing, until something is added or removed.
    var listing: [(name: [UInt8], found: Found)]?
  }

  /// What one name in the spool stands for. A name can be both: a capture that was removed keeps its status, and a
  /// directory may be made in its place.
  private struct Slot {
    var directory: Directory?
    /// Files that have, or had last, this name. The last one is shown; a file that took the name of another one, as an
    /// editor's rename does, covers it until it goes. One of which only the past is known covers none.
    var files: SmallArray<FileID> = []

    var isEmpty: Bool { directory == nil && files.isEmpty }
  }

  /// Files that are shown and have the same stem, each with how many of its names have it.
  private enum StemOwners {
    case one(FileID, count: Int)
    case many([FileID: Int])
  }

  static let suffix = Array(".json".utf8)

  private let root = Directory()
  private var pathsByFile: [FileID: [RelativePath]] = [:]
  private var ownersByStem: [ArraySlice<UInt8>: StemOwners] = [:]
  /// Files that are there no more.
  private var former: Set<FileID> = []
  /// Likewise of those that are shown and gone; they give way to a file that is there.
  private var formerByStem: [ArraySlice<UInt8>: [FileID: Int]] = [:]

  /// Files that are known.
  var count: Int { pathsByFile.count }

  func contains(_ id: FileID) -> Bool { pathsByFile[id] != nil }

  /// States all names of a file, or its former ones; with none it is removed. A file that is gone stays shown under all names
  /// that it had.
  mutating func update(_ id: FileID, _ newPaths: [RelativePath], areFormer: Bool = false) {
    let old = pathsByFile[id] ?? []
    let paths = areFormer && !old.isEmpty && !newPaths.isEmpty ? old : newPaths
    if former.contains(id) != areFormer { setFormer(id, areFormer, shownAs: old) }
    guard old != paths else { return }
    for path in old where !paths.contains(path) { removeName(path, of: id) }
    for path in paths where !old.contains(path) { addName(path, of: id, isFormer: areFormer) }
    pathsByFile[id] = paths.isEmpty ? nil : paths
    if paths.isEmpty { former.remove(id) }
  }

  private mutating func setFormer(_ id: FileID, _ isFormer: Bool, shownAs paths: [RelativePath]) {
    let shown = paths.filter { isShown($0, id) }
    for path in shown { removeStem(of: path, id) }
    if isFormer { former.insert(id) } else { former.remove(id) }
    for path in shown { addStem(of: path, id) }
  }

  // MARK: - Lists

  /// The first files after an identity, in the order of these, at most so many.
  func files(after id: FileID, countMax: Int) -> [FileID] {
    // In no order: the lowest are the same in any.
    var files = pathsByFile.keys.filter { $0 > id }
    // Quickselect (C. A. R. Hoare, “Algorithm 65: Find”, 1961): to sort all of them for each page would take longer than the pages.
    var (start, end) = (0, files.count)
    while end > countMax + Self.sortedMost {
      let pivot = [files[start], files[(start + end) / 2], files[end - 1]].sorted()[1]
      let split = files[start..<end].partition { $0 > pivot }
      if split > countMax { end = split } else { start = split }
    }
    return Array(files[..<end].sorted().prefix(countMax))
  }

  private static let sortedMost = 1024

  /// The paths at which a file's document stands.
  func shownPaths(of id: FileID) -> [RelativePath] { (pathsByFile[id] ?? []).filter { isShown($0, id) } }

  // MARK: - Looking up

  /// What stands at a path below `status/`; an empty path is `status` itself.
  func find(_ components: ArraySlice<ArraySlice<UInt8>>) -> Found? {
    guard let last = components.last else { return .directory }
    var directory = root
    for component in components.dropLast() {
      guard let next = directory.slots[component]?.directory else { return nil }
      directory = next
    }
    if let found = Self.shown(last, in: directory) { return found }
    guard components.count == 1 else { return nil }
    return shortForm(last)
  }

  /// The entries of a directory in byte order, without short forms; nil when there is no such directory.
  func entries(_ components: ArraySlice<ArraySlice<UInt8>>) -> [(name: [UInt8], found: Found)]? {
    var directory = root
    for component in components {
      guard let next = directory.slots[component]?.directory else { return nil }
      directory = next
    }
    if let listing = directory.listing { return listing }
    var listing: [(name: [UInt8], found: Found)] = []
    listing.reserveCapacity(directory.slots.count)
    // In no order: the listing is sorted.
    for (name, slot) in directory.slots {
      if slot.directory != nil { listing.append((Array(name), .directory)) }
      if let id = slot.files.last, let shown = Self.documentName(of: name, in: directory) {
        listing.append((shown, .document(id)))
      }
    }
    listing.sort { $0.name.lexicographicallyPrecedes($1.name) }
    directory.listing = listing
    return listing
  }

  private static func shown(_ name: ArraySlice<UInt8>, in directory: Directory) -> Found? {
    if directory.slots[name]?.directory != nil { return .directory }
    guard let capture = strippingSuffix(name) else { return nil }
    if let id = directory.slots[capture]?.files.last { return .document(id) }
    // A directory of captures stands in the place of this document, which therefore has one suffix more.
    guard let covered = strippingSuffix(capture), directory.slots[capture]?.directory != nil,
      let id = directory.slots[covered]?.files.last
    else { return nil }
    return .document(id)
  }

  /// The name of a capture's document: with the suffix, or twice with it where a directory has the first. Nil when that
  /// is taken too; the file is then reached through its other names.
  private static func documentName(of capture: ArraySlice<UInt8>, in directory: Directory) -> [UInt8]? {
    let name = capture + suffix
    guard let taken = directory.slots[name], taken.directory != nil else { return Array(name) }
    guard taken.files.isEmpty, directory.slots[name + suffix]?.directory == nil else { return nil }
    return Array(name + suffix)
  }

  private func shortForm(_ name: ArraySlice<UInt8>) -> Found? {
    guard let stem = Self.strippingSuffix(name), let id = owner(of: stem),
      let path = pathsByFile[id]?.first(where: { Self.stem(of: $0) == stem && isShown($0, id) }),
      let directory = directory(path.parent), let document = Self.documentName(of: path.lastComponent, in: directory)
    else { return nil }
    return .link(target: path.parent.appending(document).bytes, id)
  }

  /// The file that is there with a stem, or else the one that was made last; nil where several are there.
  private func owner(of stem: ArraySlice<UInt8>) -> FileID? {
    switch ownersByStem[stem] {
    case .one(let id, _): id
    case .many: nil
    case nil: formerByStem[stem]?.keys.max()
    }
  }

  private func isShown(_ path: RelativePath, _ id: FileID) -> Bool {
    directory(path.parent)?.slots[path.lastComponent]?.files.last == id
  }

  private func directory(_ path: RelativePath) -> Directory? {
    var directory = root
    for component in path.components {
      guard let next = directory.slots[component]?.directory else { return nil }
      directory = next
    }
    return directory
  }

  private static func strippingSuffix(_ name: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
    guard name.count > suffix.count, name.suffix(suffix.count).elementsEqual(suffix) else { return nil }
    return name.dropLast(suffix.count)
  }

  /// The last component without its last extension; a leading dot starts none.
  static func stem(of path: RelativePath) -> ArraySlice<UInt8> {
    let name = path.lastComponent
    guard let dot = name.lastIndex(of: UInt8(ascii: ".")), dot > name.startIndex else { return name }
    return name[..<dot]
  }

  // MARK: - Names

  private mutating func addName(_ path: RelativePath, of id: FileID, isFormer: Bool) {
    let components = path.components
    guard let last = components.last else { return }
    var directory = root
    for component in components.dropLast() {
      if let next = directory.slots[component]?.directory {
        directory = next
      } else {
        let next = Directory()
        // The key of a folder that no file's name has made is copied: a slice would keep the path of the first of its files.
        directory.slots[Array(component)[...], default: Slot()].directory = next
        directory.listing = nil
        directory = next
      }
    }
    let covered = directory.slots[last]?.files.last
    if isFormer, covered != nil {
      directory.slots[last]?.files.insert(id, at: 0)
      return
    }
    // The path is kept with the file, and its name and its stem are slices of it. Where several files share one, the key may be of one that
    // is gone: equal, and as short.
    directory.slots[last, default: Slot()].files.append(id)
    directory.listing = nil
    if let covered { removeStem(of: path, covered) }
    addStem(of: path, id)
  }

  private mutating func removeName(_ path: RelativePath, of id: FileID) {
    let components = path.components
    guard let last = components.last else { return }
    var directories = [root]
    for component in components.dropLast() {
      guard let next = directories.last?.slots[component]?.directory else { return }
      directories.append(next)
    }
    guard let directory = directories.last, var slot = directory.slots[last],
      let position = slot.files.lastIndex(of: id)
    else { return }
    let wasShown = position == slot.files.count - 1
    slot.files.remove(at: position)
    directory.slots[last] = slot.isEmpty ? nil : slot
    directory.listing = nil
    if wasShown {
      removeStem(of: path, id)
      if let uncovered = slot.files.last { addStem(of: path, uncovered) }
    }
    removeEmptyDirectories(components.dropLast(), directories)
  }

  private func removeEmptyDirectories(_ components: ArraySlice<ArraySlice<UInt8>>, _ directories: [Directory]) {
    for (component, depth) in zip(components, directories.indices).reversed() {
      guard directories[depth + 1].slots.isEmpty, var slot = directories[depth].slots[component] else { return }
      slot.directory = nil
      directories[depth].slots[component] = slot.isEmpty ? nil : slot
      directories[depth].listing = nil
    }
  }

  private mutating func addStem(of path: RelativePath, _ id: FileID) {
    let stem = Self.stem(of: path)
    guard !former.contains(id) else {
      formerByStem[stem, default: [:]][id, default: 0] += 1
      return
    }
    switch ownersByStem[stem] {
    case nil: ownersByStem[stem] = .one(id, count: 1)
    case .one(id, let count): ownersByStem[stem] = .one(id, count: count + 1)
    case .one(let other, let count): ownersByStem[stem] = .many([other: count, id: 1])
    case .many(var counts):
      // Taken out first: changing a dictionary that is also referenced elsewhere would copy all of it.
      ownersByStem[stem] = nil
      counts[id, default: 0] += 1
      ownersByStem[stem] = .many(counts)
    }
  }

  private mutating func removeStem(of path: RelativePath, _ id: FileID) {
    let stem = Self.stem(of: path)
    guard !former.contains(id) else {
      let count = formerByStem[stem]?[id] ?? 0
      formerByStem[stem]?[id] = count > 1 ? count - 1 : nil
      if formerByStem[stem]?.isEmpty == true { formerByStem[stem] = nil }
      return
    }
    switch ownersByStem[stem] {
    case .one(id, let count): ownersByStem[stem] = count > 1 ? .one(id, count: count - 1) : nil
    case .many(var counts):
      ownersByStem[stem] = nil
      if let count = counts[id] { counts[id] = count > 1 ? count - 1 : nil }
      if counts.count == 1, let only = counts.first {
        ownersByStem[stem] = .one(only.key, count: only.value)
      } else {
        ownersByStem[stem] = .many(counts)
      }
    case .one, nil: break
    }
  }
}
