import CLinux
import FileModel
import Glibc

/// What an extended attribute of a spool file says to the next run: that somebody was writing it when the mount ended, how
/// long it was when its writers had finished, or why its content is not whole.
enum SpoolMark: Hashable, Sendable {
  case none
  case writing
  /// Finished with this size. The disk learns of the mark no later than of the content: if the power is cut in between, the
  /// file is shorter than that when it is found in another instance of the spool.
  case closed(sizeBytes: UInt64, in: SpoolInstance)
  case interrupted(Interruption)

  private static let name = "user.uploadfs.writing"
  private static let closedPrefix = "closed "

  /// What follows for whoever finds it on a file of this size.
  func interruption(sizeBytes: UInt64, in instance: SpoolInstance) -> Interruption? {
    switch self {
    case .none: nil
    case .writing: .mountDied
    // Within one instance nothing can be lost: somebody made it shorter by hand.
    case .closed(let closedBytes, let known):
      sizeBytes < closedBytes && (known.name == nil || known != instance) ? .notOnDisk : nil
    case .interrupted(let interruption): interruption
    }
  }

  /// What a mark's text says; `writing` for what is not understood.
  init(_ text: String) {
    let parts = text.split(separator: " ")
    if text.hasPrefix(Self.closedPrefix), parts.count >= 2, let sizeBytes = UInt64(parts[1]) {
      self = .closed(sizeBytes: sizeBytes, in: SpoolInstance(name: parts.count == 3 ? String(parts[2]) : nil))
    } else {
      self = Interruption(text).map { .interrupted($0) } ?? .writing
    }
  }

  /// What the attribute holds; nil where there is none.
  var text: String? {
    switch self {
    case .none: nil
    case .writing: "writing"
    case .closed(let sizeBytes, let instance):
      "\(Self.closedPrefix)\(sizeBytes)" + (instance.name.map { " \($0)" } ?? "")
    case .interrupted(let interruption): interruption.text
    }
  }

  /// The mark of a file at a place. What could not be read is no mark and not none.
  init(at place: borrowing SpoolLocation) throws(SystemError) {
    var buffer = [CChar](repeating: 0, count: 64)
    let count = uploadfs_attribute_at(place.directory, place.path, Self.name, &buffer, buffer.count)
    guard try SystemError.isPresent(attributeOf: count) else {
      self = .none
      return
    }
    self.init(String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self))
  }

  /// Puts it on an open file. False, with errno, where the disk does not take it: it may be full or fail, or deny the user of the
  /// daemon to write the file.
  func put(on descriptor: FileDescriptor) -> Bool {
    guard let text else {
      return uploadfs_remove_attribute(descriptor.number, Self.name) == 0 || errno == ENODATA
    }
    return uploadfs_set_attribute(descriptor.number, Self.name, text, text.utf8.count) == 0
  }

  /// The content is not known to be whole.
  var isDoubt: Bool {
    switch self {
    case .none, .closed: false
    case .writing, .interrupted: true
    }
  }

  /// Whether a folder's filesystem keeps marks. Where a full disk does not take one now it keeps those that it has, and a change that
  /// cannot be marked fails; only EOPNOTSUPP says that there are none.
  static func areKept(in folder: FileDescriptor) throws(SystemError) -> Bool {
    if SpoolMark.writing.put(on: folder) {
      // On a folder it says nothing, should it stay.
      _ = SpoolMark.none.put(on: folder)
      return true
    }
    guard SystemError.last != .notSupported else { return false }
    var buffer = [CChar](repeating: 0, count: 64)
    if uploadfs_attribute_at(folder.number, ".", Self.name, &buffer, buffer.count) >= 0 { return true }
    switch SystemError.last.code {
    case ENODATA: return true
    case EOPNOTSUPP: return false
    default: throw .last
    }
  }
}
