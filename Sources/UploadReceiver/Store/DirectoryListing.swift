import CLinux
import Glibc
import ReceiverCore

/// A name in a directory, byte by byte: the kernel takes any bytes but a slash and zero, and what lies below a root is not always the
/// receiver's, so it need be no UTF-8.
struct EntryName: Hashable, Sendable {
  /// As the kernel takes it, with the zero at its end.
  let characters: [CChar]

  init(_ text: String) { characters = Array(text.utf8CString) }

  /// Copies what ends with a zero.
  fileprivate init(copying name: UnsafePointer<CChar>) {
    characters = Array(UnsafeBufferPointer(start: name, count: strlen(name) + 1))
  }

  /// For people, and for names that the receiver has given itself: what is no UTF-8 is repaired, and names nothing.
  var text: String { String(decoding: characters.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self) }
}

enum DirectoryListing {
  /// The names in a directory of the receiver's own but `.` and `..`.
  static func names(in directory: FileDescriptor) throws(StoreFailure) -> [String] {
    try entries(in: directory).map(\.text)
  }

  /// The names in any directory but `.` and `..`.
  static func entries(in directory: FileDescriptor) throws(StoreFailure) -> [EntryName] {
    // fdopendir takes the number over and moves its position, so it gets one of its own.
    let copy = uploadfs_openat(directory.raw, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard copy >= 0, let stream = fdopendir(copy) else {
      if copy >= 0 { close(copy) }
      throw StoreFailure.last("opendir")
    }
    defer { closedir(stream) }
    var entries: [EntryName] = []
    while let entry = uploadfs_next_child(stream) { entries.append(EntryName(copying: uploadfs_entry_name(entry))) }
    guard errno == 0 else { throw StoreFailure.last("readdir") }
    return entries
  }
}
