import CLinux
import FileModel
import Glibc

/// An extended attribute of a spool file that says which parts of it are no longer there. It is put before the hole is made:
/// filesystems with a journal keep that order over a power cut, so that no hole is ever taken for zeros that somebody wrote.
enum ReleaseMark {
  private static let name = "user.uploadfs.released"
  private static let bytesMax = 4096

  /// What a file at a place lacks; nil when it is whole. Fails where that cannot be told: also by what is not understood, as of a later
  /// version.
  static func read(at place: borrowing SpoolLocation) throws(SystemError) -> ReleasedChunks? {
    var buffer = [CChar](repeating: 0, count: bytesMax)
    let count = uploadfs_attribute_at(place.directory, place.path, name, &buffer, buffer.count)
    guard try SystemError.isPresent(attributeOf: count) else { return nil }
    let text = String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard let released = ReleasedChunks(text) else { throw SystemError(code: EBADMSG) }
    return released.isEmpty ? nil : released
  }

  /// False when the spool cannot keep it: then nothing may be released.
  static func put(_ released: ReleasedChunks?, on descriptor: FileDescriptor) -> Bool {
    guard let text = released?.text else { return uploadfs_remove_attribute(descriptor.number, name) == 0 }
    return uploadfs_set_attribute(descriptor.number, name, text, text.utf8.count) == 0
  }
}
