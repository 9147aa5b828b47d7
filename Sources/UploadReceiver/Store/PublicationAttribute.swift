import CLinux
import Glibc
import Integrity
import ReceiverCore

/// The attribute of published files that says which publication each one is. A copy has it, too, where the program that makes it
/// copies attributes.
enum PublicationAttribute {
  static let name = "user.uploadfs.pub"
}

extension FileDescriptor {
  /// Gives a file that is about to be published its time, its mode, and the attribute, where there is an identity to be said. A
  /// filesystem without attributes takes it all the same.
  func setAttributes(of publication: Publication) throws(StoreFailure) {
    try setModified(nanoseconds: publication.modifiedNanoseconds)
    // With the time that the disk has kept, which may be a coarser one; and before the mode: a file that its owner may not write
    // takes no attribute of him.
    if let mark = PublicationMark(of: publication, try status()) { try set(mark) }
    try setMode(publication.mode)
  }

  private func set(_ mark: PublicationMark) throws(StoreFailure) {
    let code: Int32 = mark.bytes.withUnsafeBytes { bytes in
      let value = bytes.assumingMemoryBound(to: CChar.self)
      return uploadfs_set_attribute(raw, PublicationAttribute.name, value.baseAddress, value.count) == 0 ? 0 : errno
    }
    guard code != 0, code != ENOTSUP, code != ENOSYS else { return }
    errno = code
    throw .last("fsetxattr")
  }

  /// What the file says of itself.
  func publicationMark() throws(StoreFailure) -> PublicationMark.Found {
    var value = [CChar](repeating: 0, count: PublicationMark.bytesMax)
    let count = uploadfs_attribute(raw, PublicationAttribute.name, &value, value.count)
    guard count >= 0 else {
      switch errno {
      case ENODATA, ENOTSUP, ENOSYS: return .nothing
      case ERANGE, EACCES, EPERM, EIO: return .unreadable
      default: throw .last("fgetxattr")
      }
    }
    return PublicationMark(bytes: value.prefix(count).map { UInt8(bitPattern: $0) }).map { .mark($0) } ?? .unreadable
  }
}

extension PublicationMark {
  /// Of a publication whose file is in this state; nil where its client has given it no identity.
  fileprivate init?(of publication: Publication, _ status: stat) {
    let receipt = publication.receipt
    guard let fileID = receipt.fileID, !fileID.isEmpty else { return nil }
    self.init(
      fileID: fileID, merkleRoot: receipt.merkleRoot, chunkBytes: publication.chunkBytes, sizeBytes: receipt.sizeBytes,
      modifiedNanoseconds: status.modifiedNanoseconds)
  }
}

extension stat {
  /// The modification time, as far as 64 bits hold it: two that differ only beyond that are not told apart.
  var modifiedNanoseconds: Int64 { Int64(st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(st_mtim.tv_nsec) }
}
