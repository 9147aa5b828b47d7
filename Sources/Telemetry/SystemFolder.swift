import CLinux
import Glibc

/// A folder of sysfs: small files of one line, which may be missing, unreadable or nonsense at any moment.
struct SystemFolder {
  /// More than any attribute holds that is read here.
  private static let fileBytesMax = 256
  /// More entries than this are no machine's; the rest is left out.
  private static let entriesMax = 1024

  let path: String

  func folder(_ name: String) -> SystemFolder { SystemFolder(path: "\(path)/\(name)") }

  /// The names in it, none when it cannot be read. Shorter ones come first, so `thermal_zone10` comes after `thermal_zone9`.
  func names() -> [String] {
    guard let stream = opendir(path) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while names.count < Self.entriesMax, let entry = uploadfs_next_child(stream) {
      let name = String(cString: uploadfs_entry_name(entry))
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names.sorted { ($0.utf8.count, $0) < ($1.utf8.count, $1) }
  }

  /// The first line of a file without the space around it; nil when there is none, or when it is not of printable ASCII.
  func text(_ name: String) -> String? {
    // Not blocking, and only files: whatever lies there, opening and reading it must not take time.
    let descriptor = open("\(path)/\(name)", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    var block = [UInt8](repeating: 0, count: Self.fileBytesMax)
    let count = read(descriptor, &block, block.count)
    guard count > 0 else { return nil }
    let line = block[..<count].prefix { $0 != UInt8(ascii: "\n") }
    let space = UInt8(ascii: " ")
    guard line.allSatisfy({ (space...UInt8(ascii: "~")).contains($0) }) else { return nil }
    let words = line.split(separator: space, omittingEmptySubsequences: true)
    return words.isEmpty ? nil : words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
  }

  func number(_ name: String) -> Int? { text(name).flatMap { Int($0) } }
}
