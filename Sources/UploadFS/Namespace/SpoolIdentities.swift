import FileModel

/// The identities that are still to be given to files of the spool by their inode numbers: those that earlier runs knew, without the ones
/// that were given, and with those of files of which nothing is kept any more.
struct SpoolIdentities: Sendable {
  private let earlier: KnownIdentities
  /// Numbers of earlier runs that count no more.
  private var taken: Set<UInt64> = []
  private var further: [UInt64: FileID] = [:]

  init(_ earlier: KnownIdentities) { self.earlier = earlier }

  subscript(inode: UInt64) -> FileID? {
    if let id = further[inode] { return id }
    return taken.contains(inode) ? nil : earlier[inode]
  }

  /// Each is given out once: a file that later gets the same inode number is another file.
  mutating func take(_ inode: UInt64) -> FileID? {
    defer { forget(inode) }
    return self[inode]
  }

  /// The number is of another file by now.
  mutating func forget(_ inode: UInt64) {
    further[inode] = nil
    if earlier[inode] != nil { taken.insert(inode) }
  }

  /// The file that has the number is to have this identity when it is met again.
  mutating func keep(_ id: FileID, for inode: UInt64) {
    if earlier[inode] == id {
      further[inode] = nil
      taken.remove(inode)
    } else {
      further[inode] = id
    }
  }
}
