import CLinux
import ChunkProtocol
import Glibc
import Integrity
import ReceiverCore

/// Where a publication goes: under which name, and in the place of which file.
extension PublishedTree {
  /// Where a name lies.
  struct Place {
    var folder: Folder
    var lastComponent: String
    /// The name under which the file will lie, where that is not the one that was asked for.
    var publishedAs: String?
    /// The file that gives way to it, as it was checked; nil where there was none.
    var replaced: DataStamp?
    /// Whose that file is, where it is another's.
    var takenFrom: String?
    /// Whose the name is that was asked for, where the file has got a number for that.
    var holder: String?
    /// The number, and of which name.
    var number: (name: PublishedNames.Key, value: Int)?

    var key: PublishedNames.Key { PublishedNames.Key(lastComponent, in: folder.identity) }

    func replacing(_ file: DataStamp, takenFrom holder: String?) -> Place {
      var place = self
      (place.replaced, place.takenFrom) = (file, holder)
      return place
    }
  }

  /// What is appended to a name in whose place a file of the other kind lies: published files are never deleted for
  /// others. `%~` comes from no path of a client.
  private static let besideFolder = "%~file"

  /// Finds the place of a publication, making the folders that are missing.
  func makePlace(for publication: Publication) throws(StoreFailure) -> Place {
    let parts = try PublishedTree.split(publication.receipt.name)
    return try place(for: publication, in: try makeFolder(parts.folder))
  }

  /// The place of a publication whose folder is known: where the path was published last; under its name; under that with a
  /// number.
  func place(for publication: Publication, in folder: Folder) throws(StoreFailure) -> Place {
    let component = try PublishedTree.split(publication.receipt.name).lastComponent
    let rights = NameRights(publication)
    if let place = try lastPlace(for: publication, in: folder, rights) { return place }
    guard publication.ownership != nil || publication.ifExists == .replace else {
      return place(String(component), instead: component, in: folder)
    }
    // An empty folder of that name gives way; beside one in which files lie the name is another one.
    let isFree = try PublishedTree.removeEmptyFolder(String(component), in: folder.directory)
    let last = isFree ? String(component) : "\(component)\(PublishedTree.besideFolder)"
    let place = place(last, instead: component, in: folder)
    switch try verdict(on: place.lastComponent, in: folder, rights) {
    case .free: return place
    case .replaceable(let stamp, let holder): return place.replacing(stamp, takenFrom: holder)
    case .taken(let holder):
      guard publication.ownership?.ifTaken == .number else { throw .nameTaken(holder) }
      return try numberedPlace(place, rights, holder: holder)
    }
  }

  private func place(_ last: String, instead component: Substring, in folder: Folder) -> Place {
    let isOwn = folder.isOwn && last.utf8.elementsEqual(component.utf8)
    return Place(folder: folder, lastComponent: last, publishedAs: isOwn ? nil : folder.path(of: last))
  }

  /// Where the path was published last, where it may lie there again.
  private func lastPlace(
    for publication: Publication, in folder: Folder, _ rights: NameRights
  ) throws(StoreFailure) -> Place? {
    let asked = publication.receipt.name
    guard let name = publication.ownership?.publishedAs, !name.utf8.elementsEqual(asked.utf8) else { return nil }
    do throws(StoreFailure) {
      let parts = try PublishedTree.split(name)
      let isBeside = try PublishedTree.split(asked).folder.utf8.elementsEqual(parts.folder.utf8)
      let folder = isBeside ? folder : try makeFolder(parts.folder)
      let last = String(parts.lastComponent)
      guard folder.isOwn, try PublishedTree.removeEmptyFolder(last, in: folder.directory) else { return nil }
      let place = Place(folder: folder, lastComponent: last, publishedAs: name)
      switch try verdict(on: last, in: folder, rights) {
      case .free: return place
      case .replaceable(let stamp, let holder): return place.replacing(stamp, takenFrom: holder)
      case .taken: return nil
      }
    } catch .nameUnreachable {
      return nil
    }
  }

  /// The first number that is free, or that of a file that gives way; see ``NumberSearch``.
  private func numberedPlace(
    _ place: Place, _ rights: NameRights, holder: String
  ) throws(StoreFailure) -> Place {
    let path = place.folder.path(of: place.lastComponent)
    let key = place.key
    let first = names.nextNumber(of: key)
    var search = NumberSearch(from: first, counting: PublishedTree.numbersCounted)
    while true {
      let number = search.number
      guard let numbered = PublishedName.numbered(path, by: number) else {
        guard search.foundFree() else { throw .nameTaken("\(holder), and a number finds no room in it") }
        continue
      }
      var place = place
      place.lastComponent = String(try PublishedTree.split(numbered).lastComponent)
      (place.publishedAs, place.holder, place.number) = (numbered, holder, (key, number))
      let mayRead = number - first < PublishedTree.numbersReadMax
      switch try verdict(on: place.lastComponent, in: place.folder, rights, mayRead: mayRead) {
      case .free:
        guard search.foundFree() else { return place }
      case .replaceable(let stamp, let holder): return place.replacing(stamp, takenFrom: holder)
      case .taken:
        guard search.foundTaken() else { throw .nameTaken(holder) }
      }
    }
  }

  /// So many numbers are checked one by one: one of them may be the capture's own.
  private static let numbersCounted = 1000

  /// Of how many numbers files are read whose content decides. On a filesystem without attributes, thousands of one size would all be
  /// read after a start.
  private static let numbersReadMax = 16

  /// What is found under a name.
  private enum Verdict {
    case free
    /// The text says whose it is, where it is another's.
    case replaceable(DataStamp, takenFrom: String?)
    /// The text says whose it is.
    case taken(String)
  }

  private func verdict(
    on name: String, in folder: Folder, _ rights: NameRights, mayRead: Bool = true
  ) throws(StoreFailure) -> Verdict {
    guard let found = try FileDescriptor.statusIfPresent(name, in: folder.directory) else { return .free }
    if let kind = found.kindOfNoFile {
      return rights.replacesWhatIsNoFile && found.st_mode & S_IFMT != S_IFDIR
        ? .replaceable(DataStamp(found), takenFrom: "it is \(kind)") : .taken("it is \(kind)")
    }
    guard let file = try FileDescriptor.openPublished(name, in: folder.directory) else {
      let isGone = try FileDescriptor.statusIfPresent(name, in: folder.directory) == nil
      return isGone ? .free : .taken(PublishedTree.unreadable)
    }
    return try verdict(on: file, rights, mayRead: mayRead)
  }

  private static let unreadable = "it is a file that the receiver cannot read"

  private func verdict(
    on file: FileDescriptor, _ rights: NameRights, mayRead: Bool
  ) throws(StoreFailure) -> Verdict {
    let status = try file.status()
    let stamp = DataStamp(status)
    let size = UInt64(clamping: status.st_size)
    let words = try file.publicationMark()
    switch rights.answer(
      to: .init(words: words, sizeBytes: size, modifiedNanoseconds: status.modifiedNanoseconds))
    {
    case .yes: return .replaceable(stamp, takenFrom: nil)
    case .taken(let holder): return .replaceable(stamp, takenFrom: holder)
    case .no(let holder): return .taken(holder)
    case .ifContent(_, let holder) where !mayRead: return .taken(holder)
    case .ifContent(let claims, let holder):
      for claim in claims {
        let chunkBytes = claim.chunkBytes ?? .max
        let content = PublishedNames.Content(stamp: stamp, chunkBytes: chunkBytes)
        let root = names.root(of: content) { file.merkleRoot(sizeBytes: size, chunkBytes: UInt64(chunkBytes)) }
        guard let root else { return .taken(PublishedTree.unreadable) }
        if root == claim.merkleRoot { return .replaceable(stamp, takenFrom: nil) }
      }
      return .taken(holder)
    }
  }

  /// What became of a rename.
  enum Move: Hashable, Sendable {
    /// The file has its name; so many bytes of another one were replaced.
    case done(replacedBytes: UInt64)
    /// Something else has the name by now than when it was checked.
    case overtaken
    /// The folder was taken away.
    case folderGone

    /// What is said when it was so at every try.
    var failure: StoreFailure {
      self == .folderGone ? .folderGone : .io("the name is taken by others again and again")
    }
  }

  /// Moves a file to its place, atomically, and only if that is as it was when it was chosen. Afterwards the folder is to be
  /// synced; that the file is gone from where it was is for the caller to sync.
  func move(
    _ file: String, from directory: FileDescriptor, to place: Place, _ publication: Publication
  ) throws(StoreFailure) -> Move {
    let isOnlyIfFree = publication.ownership == nil && publication.ifExists == .fail
    let target = place.folder.directory
    let move = try names.withLock(on: place.key) { () throws(StoreFailure) -> Move in
      let present = try FileDescriptor.statusIfPresent(place.lastComponent, in: target)
      if let present {
        if isOnlyIfFree { throw .nameExists }
        guard place.replaced == DataStamp(present) else { return .overtaken }
      }
      return try PublishedTree.rename(file, from: directory, to: place, replacing: present)
    }
    if isOnlyIfFree, move == .overtaken { throw .nameExists }
    if case .done = move, let number = place.number { names.noteTaken(number.value, of: number.name) }
    return move
  }

  private static func rename(
    _ file: String, from directory: FileDescriptor, to place: Place, replacing present: stat?
  ) throws(StoreFailure) -> Move {
    let target = place.folder.directory.raw
    var result = uploadfs_renameat2(
      directory.raw, file, target, place.lastComponent, present == nil ? uploadfs_rename_noreplace : 0)
    if result != 0, present == nil, errno == EINVAL || errno == ENOSYS {
      // The filesystem cannot do it under that condition. No other publication comes between.
      result = uploadfs_renameat2(directory.raw, file, target, place.lastComponent, 0)
    }
    if result == 0 {
      guard let present, present.st_mode & S_IFMT == S_IFREG else { return .done(replacedBytes: 0) }
      return .done(replacedBytes: UInt64(clamping: present.st_size))
    }
    switch errno {
    case EEXIST where present == nil: return .overtaken
    case ENOENT: return .folderGone
    default: throw failure("rename")
    }
  }
}

extension PublishedTree.Folder {
  fileprivate func path(of name: String) -> String { path.isEmpty ? name : "\(path)/\(name)" }
}

extension FileDescriptor {
  /// The Merkle root over the digests of a file's chunks; nil where it cannot be read. Reads in pieces, whatever the size of a chunk
  /// is.
  fileprivate func merkleRoot(sizeBytes: UInt64, chunkBytes: UInt64) -> Digest32? {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { buffer.deallocate() }
    var tree = MerkleTree()
    var position: UInt64 = 0
    while position < sizeBytes {
      let end = position + min(chunkBytes, sizeBytes - position)
      if isHole(position..<end) {
        tree.append(ZeroChunk(byteCount: Int(end - position)).sha256)
        position = end
        continue
      }
      var hasher = SHA256Hasher()
      while position < end {
        let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(min(UInt64(buffer.count), end - position))])
        guard fill(piece, at: position) else { return nil }
        hasher.update(UnsafeRawBufferPointer(piece))
        position += UInt64(piece.count)
      }
      tree.append(hasher.finalize())
    }
    return tree.root
  }

  /// What the disk does not give out, or what was cut meanwhile, is no publication's content.
  private func fill(_ piece: UnsafeMutableRawBufferPointer, at position: UInt64) -> Bool {
    do throws(StoreFailure) {
      return try read(into: piece, at: position) == piece.count
    } catch {
      return false
    }
  }
}
