import CLinux
import Glibc

/// Where the spool lies, or is to lie: everything that can be said against it before anything is made there.
package struct SpoolFolder {
  private static let slash = UInt8(ascii: "/")

  let path: String

  /// Looks, and makes nothing.
  init(checking configuration: FilesystemConfiguration) throws(MountError) {
    path = configuration.spoolDirectory
    guard !path.isEmpty else { throw MountError(.spoolUnusable, "no spool directory was given") }
    try requireApart(mountPoint: configuration.mountPoint)
    try requireOutsideSpools(mountPoint: configuration.mountPoint)
    let existing = try nearestFolder()
    try requireOtherFilesystem(existing)
    guard existing == path else {
      guard access(existing, W_OK | X_OK) == 0 else { throw unusable(existing, "cannot be made in") }
      return
    }
    if let refusal = SpoolPrivacy(of: path)?.refusal(of: path) {
      throw MountError(.spoolUnusable, "\(refusal.reason); \(refusal.advice)")
    }
  }

  /// Makes the folder and those above it, for no other user to enter. True when it was there and others could enter it.
  func make() throws(MountError) -> Bool {
    try make(path)
    let number = uploadfs_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard number >= 0 else { throw unusable(path, "cannot be opened") }
    let folder = FileDescriptor(owning: number, isReadable: true, isWritable: false)
    guard let status = try? folder.status() else { throw unusable(path, "cannot be read") }
    guard status.st_mode & 0o077 != 0 else { return false }
    guard fchmod(number, 0o700) == 0, let mode = (try? folder.status())?.st_mode, mode & 0o077 == 0 else {
      throw MountError(
        .spoolUnusable,
        "the spool \(path) cannot be closed to other users: its filesystem keeps no modes; mount that with umask=077, or "
          + "choose another spool")
    }
    return true
  }

  /// Makes a folder, and its parents for no other user to read.
  private func make(_ path: String) throws(MountError) {
    var status = stat()
    if stat(path, &status) == 0 { return }
    let failure = errno
    guard failure == ENOENT else { throw unusable(path, "cannot be reached") }
    if let slash = path.unicodeScalars.lastIndex(of: "/"), slash != path.startIndex { try make(String(path[..<slash])) }
    if mkdir(path, 0o700) != 0, errno != EEXIST { throw unusable(path, "cannot be made") }
  }

  func unusable(_ path: String, _ what: String) -> MountError {
    let reason = String(cString: strerror(errno))
    return MountError(
      .spoolUnusable, "spool \(path) \(what) (\(reason)); choose a directory that this user can write")
  }

  // MARK: Checks

  /// The spool itself, or the nearest folder above it.
  private func nearestFolder() throws(MountError) -> String {
    var existing = path
    var status = stat()
    while stat(existing, &status) != 0 {
      guard errno == ENOENT, existing != "/", existing != "." else { throw unusable(existing, "cannot be reached") }
      guard let slash = existing.unicodeScalars.lastIndex(of: "/") else {
        existing = "."
        continue
      }
      existing = slash == existing.startIndex ? "/" : String(existing[..<slash])
    }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      throw MountError(.spoolUnusable, "spool \(existing) is no directory; remove it or choose another --spool")
    }
    return existing
  }

  /// A spool inside its own mount would wait for itself; a mount inside the captures would capture itself.
  private func requireApart(mountPoint: String) throws(MountError) {
    let spoolPath = Self.resolvedBytes(path)
    let mountPath = Self.resolvedBytes(mountPoint)
    if Self.isAt(spoolPath, orBelow: mountPath) || Self.isAt(mountPath, orBelow: spoolPath + "/captures".utf8) {
      throw MountError(
        .spoolInsideMount,
        "the spool \(path) and the mount point \(mountPoint) lie inside each other; keep the spool elsewhere")
    }
  }

  /// What lies in the captures of a spool is uploaded from there: of a spool in it that would be its key and its records, and what
  /// is mounted there hides captures.
  private func requireOutsideSpools(mountPoint: String) throws(MountError) {
    let places = [("spool", path), ("mount point", mountPoint)]
    for (what, place) in places {
      guard let outer = Self.spool(around: Self.resolvedBytes(place)) else { continue }
      let shown = String(decoding: outer, as: UTF8.self)
      throw MountError(
        .spoolInsideMount,
        "the \(what) \(place) lies in the captures of the spool \(shown), which are uploaded; choose a place beside it")
    }
  }

  /// The spool whose captures hold the place that a path leads to, for people; nil when there is none.
  package static func spool(aroundPlaceOf path: String) -> String? {
    spool(around: resolvedBytes(path)).map { String(decoding: $0, as: UTF8.self) }
  }

  private static func spool(around path: [UInt8]) -> ArraySlice<UInt8>? {
    var place = path[...]
    while let end = place.lastIndex(of: slash) {
      let parent = place[..<end]
      var status = stat()
      if place[end...].elementsEqual("/captures".utf8), lstat(cText(parent + "/.state".utf8), &status) == 0,
        status.kind == .directory
      {
        return parent
      }
      place = parent
    }
    return nil
  }

  /// A mount publishes what is written into it: of another mount's spool that would be its key and its records. By the
  /// filesystem's number, whichever way leads there.
  private func requireOtherFilesystem(_ existing: String) throws(MountError) {
    guard let mountpoint = UploadMounts.current.holding(existing, existing + "/captures", existing + "/.state") else {
      return
    }
    throw MountError(
      .spoolInsideMount,
      "the spool \(path) lies in another uploadfs mount, at \(mountpoint), which would upload it; keep the spool on a disk"
    )
  }

  private static func isAt(_ path: [UInt8], orBelow parent: [UInt8]) -> Bool {
    path == parent || path.starts(with: parent == [slash] ? parent : parent + [slash])
  }

  // MARK: Where a path leads

  /// ``resolvedBytes(_:)`` for people. What is no UTF-8 in it has become U+FFFD, so it may name another place.
  package static func resolved(_ path: String) -> String { String(decoding: resolvedBytes(path), as: UTF8.self) }

  /// An absolute path without symbolic links, as far as the path exists. The last component is not entered: it may be a
  /// mount whose daemon is dead. Bytes, because a folder that a link or the current directory leads through may have any name.
  static func resolvedBytes(_ path: String) -> [UInt8] {
    var trimmed = path
    while trimmed.utf8.count > 1, trimmed.utf8.last == slash { trimmed.unicodeScalars.removeLast() }
    if let buffer = realpath(trimmed, nil) {
      defer { free(buffer) }
      return UnsafeBufferPointer(start: buffer, count: strlen(buffer)).map { UInt8(bitPattern: $0) }
    }
    guard trimmed != "/", trimmed != ".", !trimmed.isEmpty else { return [slash] }
    let bytes = Array(trimmed.utf8)
    let end = bytes.lastIndex(of: slash)
    // Both sides of a slash are UTF-8 as the whole is.
    let above = end.map { $0 == 0 ? "/" : String(decoding: bytes[..<$0], as: UTF8.self) } ?? "."
    let parent = resolvedBytes(above)
    return (parent == [slash] ? parent : parent + [slash]) + bytes[(end.map { $0 + 1 } ?? 0)...]
  }

  private static func cText(_ bytes: some Sequence<UInt8>) -> [CChar] {
    bytes.map { CChar(bitPattern: $0) } + [0]
  }
}
