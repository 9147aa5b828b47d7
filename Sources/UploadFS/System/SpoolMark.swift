import CLinux
import FileModel
import Glibc

/// What an extended attribute of a spool file says to the next run: that somebody was writing it when the mount ended, how
/// long it was when its writers had finished, or why its content is not whole.
enum SpoolMark: Hashable, Sendable {
  case none
  case writing
  /// Finished with this size. The disk learns of the mark no later than of the content: if the power is cut in between, the
  /// file is shorter than that.
  case closed(sizeBytes: UInt64)
  case interrupted(Interruption)

  private static let name = "user.uploadfs.writing"
  private static let closedPrefix = "closed "

  /// What follows for whoever finds it on a file of this size.
  func interruption(sizeBytes: UInt64) -> Interruption? {
    switch self {
    case .none: nil
    case .writing: .mountDied
    case .closed(let closedBytes): sizeBytes < closedBytes ? .notOnDisk : nil
    case .interrupted(let interruption): interruption
    }
  }

  private init(_ text: String) {
    if text.hasPrefix(Self.closedPrefix), let sizeBytes = UInt64(text.dropFirst(Self.closedPrefix.count)) {
      self = .closed(sizeBytes: sizeBytes)
    } else {
      self = Interruption(text).map { .interrupted($0) } ?? .writing
    }
  }

  /// The mark of a file at a place; none when it cannot be read.
  init(at place: borrowing SpoolLocation) {
    var buffer = [CChar](repeating: 0, count: 64)
    let count = uploadfs_attribute_at(place.directory, place.path, Self.name, &buffer, buffer.count)
    guard count > 0 else {
      self = .none
      return
    }
    self.init(String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self))
  }

  /// Puts it on an open file. Nothing can be done when that fails: the file of an ordinary user's daemon may deny its owner
  /// to write.
  @discardableResult
  func put(on descriptor: FileDescriptor) -> Bool {
    let text: String
    switch self {
    case .none: return uploadfs_remove_attribute(descriptor.number, Self.name) == 0
    case .writing: text = "writing"
    case .closed(let sizeBytes): text = "\(Self.closedPrefix)\(sizeBytes)"
    case .interrupted(let interruption): text = interruption.text
    }
    return uploadfs_set_attribute(descriptor.number, Self.name, text, text.utf8.count) == 0
  }

  /// Whether a folder's filesystem keeps marks.
  static func areKept(in folder: FileDescriptor) -> Bool {
    SpoolMark.writing.put(on: folder) && SpoolMark.none.put(on: folder)
  }
}
