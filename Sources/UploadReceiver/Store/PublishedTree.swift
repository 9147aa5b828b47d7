import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc

/// The tree below a credential's root. Reaches files only through directories that it opened itself, one component
/// after the other and never through a symbolic link, so that no name leads out of the root.
struct PublishedTree: Sendable {
  let root: FileDescriptor
  let beforeSync: BeforeSync
  private let syncedFolders = SyncedFolders()

  init(root: FileDescriptor, beforeSync: @escaping BeforeSync) {
    self.root = root
    self.beforeSync = beforeSync
  }

  /// A folder of published files.
  struct Folder {
    var directory: FileDescriptor
    /// The directories above it, the root first.
    var ancestors: [FileDescriptor]
  }

  /// Where a name lies.
  struct Place {
    var folder: Folder
    var lastComponent: String
  }

  /// The name in two parts; the folder's is empty for the root itself.
  static func split(_ name: String) throws(StoreFailure) -> (folder: Substring, lastComponent: Substring) {
    guard PublishedName.validate(name) == nil else { throw .nameUnreachable("the name is not acceptable") }
    guard let slash = name.utf8.lastIndex(of: UInt8(ascii: "/")) else { return ("", name[...]) }
    return (name[..<slash], name[name.utf8.index(after: slash)...])
  }

  /// Opens the directory that holds the name, making what is missing.
  func makePlace(for name: String) throws(StoreFailure) -> Place {
    let parts = try PublishedTree.split(name)
    return Place(folder: try makeFolder(parts.folder), lastComponent: String(parts.lastComponent))
  }

  /// Opens a directory, making what is missing.
  func makeFolder(_ path: Substring) throws(StoreFailure) -> Folder {
    var folder = Folder(directory: root, ancestors: [])
    for component in PublishedName.components(of: path) {
      let parent = folder.directory
      folder.ancestors.append(parent)
      if let present = try PublishedTree.openDirectoryIfPresent(component, in: parent) {
        folder.directory = present
        continue
      }
      if mkdirat(parent.raw, component, 0o755) != 0, errno != EEXIST {
        throw PublishedTree.failure("mkdir", component)
      }
      folder.directory = try PublishedTree.openDirectory(component, in: parent)
    }
    return folder
  }

  /// Moves a file to its place, atomically, and says how many bytes of another file that replaced. Afterwards the folder
  /// is to be synced; that the file is gone from where it was is for the caller to sync.
  static func move(
    _ file: String, from directory: FileDescriptor, to place: Place, ifExists: IfExists
  ) throws(StoreFailure) -> UInt64 {
    let target = place.folder.directory
    var old = stat()
    let hasOld = fstatat(target.raw, place.lastComponent, &old, AT_SYMLINK_NOFOLLOW) == 0
    let isFile = hasOld && old.st_mode & S_IFMT == S_IFREG
    let flags: UInt32 = ifExists == .fail ? renameNoReplace : 0
    guard uploadfs_renameat2(directory.raw, file, target.raw, place.lastComponent, flags) == 0 else {
      if errno == EEXIST, ifExists == .fail { throw .nameExists }
      throw failure("rename", place.lastComponent)
    }
    return isFile ? UInt64(clamping: old.st_size) : 0
  }

  /// Returns when everything in the folder, and on the way to it, is on the disk.
  func sync(_ folder: Folder) throws(StoreFailure) {
    for ancestor in folder.ancestors { try syncedFolders.sync(ancestor, beforeSync) }
    try beforeSync(.publishedFolder)
    try folder.directory.sync()
  }

  /// Whether the name belongs to this very file. If so, everything on the way to it is on the disk afterwards: the crash may
  /// have come between the rename and that.
  func holds(_ name: String, inode: UInt64, sizeBytes: UInt64) throws(StoreFailure) -> Bool {
    guard PublishedName.validate(name) == nil else { return false }
    var components = PublishedName.components(of: name)
    let last = components.removeLast()
    var directory = root
    var ancestors = [root]
    for component in components {
      guard let next = try? PublishedTree.openDirectory(component, in: directory) else { return false }
      directory = next
      ancestors.append(next)
    }
    var found = stat()
    guard fstatat(directory.raw, last, &found, AT_SYMLINK_NOFOLLOW) == 0, UInt64(found.st_ino) == inode,
      UInt64(clamping: found.st_size) == sizeBytes
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
        var entry = stat()
        guard fstatat(directory.raw, name, &entry, AT_SYMLINK_NOFOLLOW) == 0 else { continue }
        if entry.st_mode & S_IFMT == S_IFREG { total &+= UInt64(clamping: entry.st_size) }
        if entry.st_mode & S_IFMT == S_IFDIR, let child = try? PublishedTree.openDirectory(name, in: directory) {
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
    while let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }
}
