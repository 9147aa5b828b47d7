import CLinux
import Glibc

/// The file `.spool` beside `captures/`: it says that this was a spool, and where it lay. By it a start knows that the spool was copied
/// to another place, where inode numbers say nothing, and whether the copy took the extended attributes along.
struct SpoolStamp: Hashable, Sendable {
  /// This was a spool before.
  var isThere = false
  /// It lies elsewhere than it did: a copy, or `captures/` of another disk.
  var isMoved = false
  /// The attributes of files have not come along.
  var hasLostAttributes = false
  /// It was copied with the times of files, or was not copied.
  var keepsTimes = true

  private static let name = ".spool"
  private static let temporaryName = ".spool.new"
  private static let attribute = "user.uploadfs"
  private static let version = "1"
  private static let bytesMax = 4096

  /// Looks, and changes nothing. A stamp that does not say where the spool lay is one of another place.
  init(in spool: FileDescriptor, captures: FileDescriptor) throws(SystemError) {
    let number = uploadfs_openat(spool.number, Self.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0)
    guard number >= 0 else {
      let error = SystemError.last
      // What stands there and is no file of ours is no stamp.
      guard error == .notFound || error.code == ELOOP || error.code == ENXIO else { throw error }
      return
    }
    let file = FileDescriptor(owning: number, isReadable: true, isWritable: false)
    guard try file.status().kind == .regular else { return }
    isThere = true
    var bytes = [UInt8](repeating: 0, count: Self.bytesMax)
    let count = try retryingInterrupts { read(number, &bytes, bytes.count) }
    let known = String(decoding: bytes.prefix(count), as: UTF8.self)
    isMoved = known != (try Self.text(of: file, captures))
    var value = [CChar](repeating: 0, count: 64)
    let size = uploadfs_attribute_at(spool.number, Self.name, Self.attribute, &value, value.count)
    let hasAttribute = try SystemError.isPresent(attributeOf: size)
    hasLostAttributes = isMoved && !hasAttribute
    // A copy that was written now is as old as that, unless it was given the time of the original. Where `.spool` has stayed, the
    // captures were copied by themselves.
    let isCopied = !known.hasPrefix(try Self.identity(of: file) + " ")
    let copy = isCopied ? file : captures
    let written = CapturedFile.KnownAttributes(try copy.status()).modifiedNanoseconds
    keepsTimes = !isMoved || written < uploadfs_birth_nanoseconds(copy.number)
  }

  /// Says that this is a spool, and that it lies here. The file is made anew, because it names itself.
  static func put(in spool: FileDescriptor, captures: FileDescriptor) throws(SystemError) {
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
    // What lies there is of a start that was broken off, or no file.
    unlinkat(spool.number, temporaryName, 0)
    let number = try check(uploadfs_openat(spool.number, temporaryName, flags, 0o600))
    let file = FileDescriptor(owning: number, isReadable: false, isWritable: true)
    // Where there are no attributes none can be lost.
    _ = uploadfs_set_attribute(number, attribute, version, version.utf8.count)
    let bytes = Array(try text(of: file, captures).utf8)
    // A part of it is one that says nothing.
    _ = try retryingInterrupts { write(number, bytes, bytes.count) }
    try check(fsync(number))
    try check(renameat(spool.number, temporaryName, spool.number, name))
  }

  private static func text(of file: FileDescriptor, _ captures: FileDescriptor) throws(SystemError) -> String {
    "\(try identity(of: file)) \(try captures.status().st_ino)\n"
  }

  private static func identity(of file: FileDescriptor) throws(SystemError) -> String {
    "uploadfs spool \(version) \(try file.status().st_ino).\(uploadfs_birth_nanoseconds(file.number))"
  }
}
