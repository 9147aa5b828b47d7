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

  /// Where a name lies.
  struct Place {
    var directory: FileDescriptor
    var lastComponent: String
    /// The directories above it, the root first.
    var ancestors: [FileDescriptor]
  }

  /// Opens the directory that holds the name, making what is missing.
  func makePlace(for name: String) throws(StoreFailure) -> Place {
    guard PublishedName.validate(name) == nil else { throw .nameUnreachable("the name is not acceptable") }
    var components = name.split(separator: "/").map(String.init)
    let last = components.removeLast()
    var place = Place(directory: root, lastComponent: last, ancestors: [])
    for component in components {
      let parent = place.directory
      if mkdirat(parent.raw, component, 0o755) != 0, errno != EEXIST {
        throw PublishedTree.failure("mkdir", component)
      }
      place.ancestors.append(parent)
      place.directory = try PublishedTree.openDirectory(component, in: parent)
    }
    return place
  }

  /// Moves a file to its place: atomic, and with everything on the way to it on the disk afterwards. That it is gone from
  /// where it was is for the caller to sync.
  func take(
    _ file: String, from directory: FileDescriptor, to place: Place, ifExists: IfExists
  ) throws(StoreFailure) -> PublicationResult {
    var old = stat()
    let hasOld = fstatat(place.directory.raw, place.lastComponent, &old, AT_SYMLINK_NOFOLLOW) == 0
    let isFile = hasOld && old.st_mode & S_IFMT == S_IFREG
    let flags: UInt32 = ifExists == .fail ? PublishedTree.renameNoReplace : 0
    guard uploadfs_renameat2(directory.raw, file, place.directory.raw, place.lastComponent, flags) == 0 else {
      if errno == EEXIST, ifExists == .fail { throw .nameExists }
      throw PublishedTree.failure("rename", place.lastComponent)
    }
    for ancestor in place.ancestors { try syncedFolders.sync(ancestor, beforeSync) }
    try beforeSync(.publishedFolder)
    try place.directory.sync()
    return PublicationResult(replacedBytes: isFile ? UInt64(clamping: old.st_size) : 0)
  }

  /// Whether the name belongs to this very file. If so, everything on the way to it is on the disk afterwards: the crash may
  /// have come between the rename and that.
  func holds(_ name: String, inode: UInt64, sizeBytes: UInt64) throws(StoreFailure) -> Bool {
    guard PublishedName.validate(name) == nil else { return false }
    var components = name.split(separator: "/").map(String.init)
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

  private static func openDirectory(
    _ component: String, in parent: FileDescriptor
  ) throws(StoreFailure) -> FileDescriptor {
    let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
    do throws(StoreFailure) {
      return try FileDescriptor.open(component, in: parent, flags)
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
