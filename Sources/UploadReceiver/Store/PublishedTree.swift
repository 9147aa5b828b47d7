import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc

/// The tree below a credential's root. Reaches files only through directories that it opened itself, one component
/// after the other and never through a symbolic link, so that no name leads out of the root.
struct PublishedTree: Sendable {
  let folder: ConfiguredFolder
  let beforeSync: BeforeSync
  private let syncedFolders = SyncedFolders()

  var root: FileDescriptor { folder.descriptor }

  init(_ folder: ConfiguredFolder, beforeSync: @escaping BeforeSync) {
    self.folder = folder
    self.beforeSync = beforeSync
  }

  /// A folder of published files.
  struct Folder {
    var directory: FileDescriptor
    /// Its path.
    var path: String
    /// The directories above it, the root first.
    var ancestors: [FileDescriptor]
    /// The path is the one that was asked for.
    var isOwn = true
  }

  /// Where a name lies.
  struct Place {
    var folder: Folder
    var lastComponent: String
    /// The name under which the file will lie, where that is not the one that was asked for.
    var publishedAs: String?
  }

  /// What is appended to a name in whose place a file of the other kind lies: published files are never deleted for
  /// others. `%~` comes from no path of a client.
  private static let besideFolder = "%~file"
  private static let besideFile = "%~folder"

  /// How often a folder is made again that others take away before a file lies in it.
  static let placesMax = 3

  /// The name in two parts; the folder's is empty for the root itself.
  static func split(_ name: String) throws(StoreFailure) -> (folder: Substring, lastComponent: Substring) {
    guard PublishedName.validate(name) == nil else { throw .nameUnreachable("the name is not acceptable") }
    guard let slash = name.utf8.lastIndex(of: UInt8(ascii: "/")) else { return ("", name[...]) }
    return (name[..<slash], name[name.utf8.index(after: slash)...])
  }

  /// Opens the directory that holds the name, making what is missing. An empty folder of that name gives way; beside one
  /// in which files lie the name is another one.
  func makePlace(for name: String, _ ifExists: IfExists) throws(StoreFailure) -> Place {
    let parts = try PublishedTree.split(name)
    return try place(parts.lastComponent, in: try makeFolder(parts.folder), ifExists)
  }

  /// The place of a name in its folder.
  func place(_ component: Substring, in folder: Folder, _ ifExists: IfExists) throws(StoreFailure) -> Place {
    var last = String(component)
    if ifExists == .replace, try !PublishedTree.removeEmptyFolder(last, in: folder.directory) {
      last += PublishedTree.besideFolder
    }
    let path = folder.path.isEmpty ? last : "\(folder.path)/\(last)"
    let isOwn = folder.isOwn && last.utf8.elementsEqual(component.utf8)
    return Place(folder: folder, lastComponent: last, publishedAs: isOwn ? nil : path)
  }

  /// Whether there is no folder of that name, afterwards. One that holds nothing but empty folders is removed.
  private static func removeEmptyFolder(_ name: String, in parent: FileDescriptor) throws(StoreFailure) -> Bool {
    guard let present = try folder(name, in: parent) else { return true }
    let names = try DirectoryListing.names(in: present)
    guard names.count <= emptyFoldersMax else { return false }
    for inner in names {
      guard try folder(inner, in: present) != nil, try removeEmptyFolder(inner, in: present) else { return false }
    }
    return unlinkat(parent.raw, name, AT_REMOVEDIR) == 0
  }

  /// Of one folder; more are left alone.
  private static let emptyFoldersMax = 100

  /// Opens a directory, making what is missing.
  func makeFolder(_ path: Substring) throws(StoreFailure) -> Folder {
    var folder = Folder(directory: root, path: "", ancestors: [])
    for component in PublishedName.components(of: path) {
      let isFile = try PublishedTree.isFile(component, in: folder.directory)
      let name = isFile ? component + PublishedTree.besideFile : component
      let parent = folder.directory
      folder.ancestors.append(parent)
      folder.directory = try PublishedTree.makeDirectory(name, in: parent)
      folder.path += folder.path.isEmpty ? name : "/\(name)"
      if isFile { folder.isOwn = false }
    }
    return folder
  }

  private static func isFile(_ component: String, in parent: FileDescriptor) throws(StoreFailure) -> Bool {
    try FileDescriptor.statusIfPresent(component, in: parent).map { $0.st_mode & S_IFMT == S_IFREG } ?? false
  }

  private static func makeDirectory(
    _ component: String, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor {
    if let present = try openDirectoryIfPresent(component, in: parent) { return present }
    if mkdirat(parent.raw, component, 0o755) != 0, errno != EEXIST { throw failure("mkdir", component) }
    return try openDirectory(component, in: parent)
  }

  /// Moves a file to its place, atomically, and says how many bytes of another file that replaced. Afterwards the folder
  /// is to be synced; that the file is gone from where it was is for the caller to sync.
  static func move(
    _ file: String, from directory: FileDescriptor, to place: Place, ifExists: IfExists
  ) throws(StoreFailure) -> UInt64 {
    let target = place.folder.directory
    let old = try FileDescriptor.statusIfPresent(place.lastComponent, in: target)
    let flags: UInt32 = ifExists == .fail ? renameNoReplace : 0
    guard uploadfs_renameat2(directory.raw, file, target.raw, place.lastComponent, flags) == 0 else {
      if errno == EEXIST, ifExists == .fail { throw .nameExists }
      if errno == ENOENT { throw .folderGone }
      throw failure("rename", place.lastComponent)
    }
    return old.map { $0.st_mode & S_IFMT == S_IFREG ? UInt64(clamping: $0.st_size) : 0 } ?? 0
  }

  /// Returns when everything in the folder, and on the way to it, is on the disk.
  func sync(_ folder: Folder) throws(StoreFailure) {
    for ancestor in folder.ancestors { try syncedFolders.sync(ancestor, beforeSync) }
    try beforeSync(.publishedFolder)
    try folder.directory.sync()
  }

  /// Whether the name belongs to this very file. If so, everything on the way to it is on the disk afterwards: the crash may
  /// have come between the rename and that.
  func holds(_ receipt: ReceiptFacts, inode: UInt64) throws(StoreFailure) -> Bool {
    let name = receipt.publishedAs ?? receipt.name
    guard PublishedName.validate(name) == nil else { return false }
    var components = PublishedName.components(of: name)
    let last = components.removeLast()
    var directory = root
    var ancestors = [root]
    for component in components {
      guard let next = try PublishedTree.folder(component, in: directory) else { return false }
      directory = next
      ancestors.append(next)
    }
    guard let found = try FileDescriptor.statusIfPresent(last, in: directory), UInt64(found.st_ino) == inode,
      UInt64(clamping: found.st_size) == receipt.sizeBytes
    else { return false }
    for ancestor in ancestors {
      try beforeSync(.publishedFolder)
      try ancestor.sync()
    }
    return true
  }

  /// The bytes of all files below the root; symbolic links are not followed.
  func usedBytes() throws(StoreFailure) -> UInt64 {
    var total: UInt64 = 0
    var pending = [root]
    while let directory = pending.popLast() {
      for name in try DirectoryListing.names(in: directory) {
        guard let entry = try FileDescriptor.statusIfPresent(name, in: directory) else { continue }
        if entry.st_mode & S_IFMT == S_IFREG { total &+= UInt64(clamping: entry.st_size) }
        if entry.st_mode & S_IFMT == S_IFDIR, let child = try PublishedTree.folder(name, in: directory) {
          pending.append(child)
        }
      }
    }
    return total
  }

  private static let renameNoReplace: UInt32 = 1

  private static let directoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW

  private static func openDirectoryIfPresent(
    _ component: String, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor? {
    do throws(StoreFailure) {
      return try FileDescriptor.openIfPresent(component, in: parent, directoryFlags)
    } catch {
      throw failure("open", component)
    }
  }

  /// Nil where there is none of that name, or something else has it.
  private static func folder(_ name: String, in parent: FileDescriptor) throws(StoreFailure) -> FileDescriptor? {
    do throws(StoreFailure) {
      return try openDirectoryIfPresent(name, in: parent)
    } catch .nameUnreachable {
      return nil
    }
  }

  private static func openDirectory(
    _ component: String, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor {
    do throws(StoreFailure) {
      return try FileDescriptor.open(component, in: parent, directoryFlags)
    } catch {
      throw failure("open", component)
    }
  }

  private static func failure(_ call: String, _ component: String) -> StoreFailure {
    switch errno {
    case ENOTDIR, ELOOP: .nameUnreachable("a part of the name is taken by something that is no folder")
    case EISDIR, EEXIST, ENOTEMPTY: .nameUnreachable("a folder has this name")
    case ENAMETOOLONG: .nameUnreachable("the name is too long for the receiver's disk")
    case EILSEQ, EINVAL: .nameUnreachable("the receiver's disk does not take this name")
    default: .last(call)
    }
  }
}

/// Lists directories.
enum DirectoryListing {
  /// The names in a directory but `.` and `..`.
  static func names(in directory: FileDescriptor) throws(StoreFailure) -> [String] {
    // fdopendir takes the number over and moves its position, so it gets one of its own.
    let copy = uploadfs_openat(directory.raw, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard copy >= 0, let stream = fdopendir(copy) else {
      if copy >= 0 { close(copy) }
      throw StoreFailure.last("opendir")
    }
    defer { closedir(stream) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = readdir(stream) else {
        if errno != 0 { throw StoreFailure.last("readdir") }
        return names
      }
      let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
  }
}
