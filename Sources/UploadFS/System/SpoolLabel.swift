import CLinux
import FileModel
import Glibc

/// The extended attribute of a spool file that holds its ``FileLabel``: one system call for all that is known. Which parts are missing
/// is put there, and brought to the disk, before the hole is made, so that no hole is ever taken for zeros that a writer wrote.
enum SpoolLabel {
  private static let name = "user.uploadfs"
  /// Of versions before: the mark, and the parts that are missing.
  private static let earlierNames = (mark: "user.uploadfs.writing", released: "user.uploadfs.released")
  private static let bytesMax = 4096

  /// What a file was found with. A class, because most files have nothing of it for long.
  final class Found: Sendable {
    let label: FileLabel
    let origin: Origin

    enum Origin: Hashable, Sendable {
      case attribute
      case earlierAttributes
      /// There is nothing: it was put there by hand, or its attributes were lost.
      case nothing
    }

    init(_ label: FileLabel, _ origin: Origin) {
      self.label = label
      self.origin = origin
    }
  }

  /// Of a file on a filesystem without attributes.
  static let nothing = Found(FileLabel(id: nil, mark: .none), .nothing)

  typealias Reading = @Sendable (borrowing SpoolLocation) throws(SystemError) -> Found

  /// What stands on a file. Fails where that cannot be told.
  static func read(at place: borrowing SpoolLocation) throws(SystemError) -> Found {
    if let text = try text(of: name, at: place) { return Found(FileLabel(text), .attribute) }
    let mark = try text(of: earlierNames.mark, at: place)
    let released = try text(of: earlierNames.released, at: place)
    var label = FileLabel(id: nil, mark: mark.map { WriterStateXattr($0) } ?? .none)
    if let released {
      let chunks = ReleasedChunks(released)
      if chunks == nil { label.losesWhatIsMissing() }
      label.released = chunks?.isEmpty == true ? nil : chunks
    }
    return Found(label, mark == nil && released == nil ? .nothing : .earlierAttributes)
  }

  /// Puts it on an open file. False, with errno, where the disk does not take it: it may be full or fail, or deny the user of the
  /// daemon to write the file.
  static func put(_ label: FileLabel, on descriptor: FileDescriptor) -> Bool {
    put(label.text, on: descriptor)
  }

  /// A label stands on the file, and those of versions before say nothing any more.
  static func removeEarlier(from descriptor: FileDescriptor) {
    for name in [earlierNames.mark, earlierNames.released] {
      // Where it fails the label counts all the same.
      _ = uploadfs_remove_attribute(descriptor.number, name)
    }
  }

  private static func put(_ text: String, on descriptor: FileDescriptor) -> Bool {
    uploadfs_set_attribute(descriptor.number, name, text, text.utf8.count) == 0
  }

  private static func text(of name: String, at place: borrowing SpoolLocation) throws(SystemError) -> String? {
    let (directory, path) = (place.directory, place.path)
    // Each file that is met is asked: a buffer of its own would cost as much as the call.
    let text = withUnsafeTemporaryAllocation(
      of: CChar.self, capacity: bytesMax
    ) { buffer -> Result<String?, SystemError> in
      let count = uploadfs_attribute_at(directory, path, name, buffer.baseAddress, buffer.count)
      do throws(SystemError) {
        guard try SystemError.isPresent(attributeOf: count) else { return .success(nil) }
        let bytes = UnsafeRawBufferPointer(start: buffer.baseAddress, count: count)
        return .success(String(decoding: bytes, as: UTF8.self))
      } catch {
        return .failure(error)
      }
    }
    return try text.get()
  }

  /// Whether a folder's filesystem keeps attributes. Where a full disk does not take one now it keeps those that it has, and a change
  /// that cannot be marked fails; only EOPNOTSUPP says that there are none.
  static func areKept(in folder: FileDescriptor) throws(SystemError) -> Bool {
    if put(FileLabel(id: nil, mark: .none).text, on: folder) {
      // On a folder it says nothing, should it stay.
      _ = uploadfs_remove_attribute(folder.number, name)
      return true
    }
    guard SystemError.last != .notSupported else { return false }
    var buffer = [CChar](repeating: 0, count: 64)
    if uploadfs_attribute_at(folder.number, ".", name, &buffer, buffer.count) >= 0 { return true }
    switch SystemError.last.code {
    case ENODATA: return true
    case EOPNOTSUPP: return false
    default: throw .last
    }
  }
}
