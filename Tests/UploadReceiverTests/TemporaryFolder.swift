import Glibc

/// A folder that goes away with its owner.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/uploadfs-receiver-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Failure(errno: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  struct Failure: Error { var errno: CInt }

  deinit { TemporaryFolder.remove(Array(path.utf8CString)) }

  /// Of any bytes, as what tests make below is, with a zero at the end.
  private static func remove(_ path: [CChar]) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    if status.st_mode & S_IFMT == S_IFDIR, let directory = opendir(path) {
      while let entry = readdir(directory) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) {
            Array(UnsafeBufferPointer(start: $0, count: strlen($0) + 1))
          }
        }
        guard name != Array(".".utf8CString), name != Array("..".utf8CString) else { continue }
        let slash: [CChar] = [0x2f]
        remove(Array(path.dropLast()) + slash + name)
      }
      closedir(directory)
      rmdir(path)
    } else {
      unlink(path)
    }
  }

  func contents(_ name: String) -> [UInt8]? { TemporaryFolder.read("\(path)/\(name)") }

  static func read(_ path: String) -> [UInt8]? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = fread(&buffer, 1, buffer.count, file)
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
  }

  func write(_ bytes: [UInt8], to name: String) {
    guard let file = fopen("\(path)/\(name)", "w") else { return }
    fwrite(bytes, 1, bytes.count, file)
    fclose(file)
  }

  func makeFolder(_ name: String) { mkdir("\(path)/\(name)", 0o755) }

  func exists(_ name: String) -> Bool {
    var status = stat()
    return lstat("\(path)/\(name)", &status) == 0
  }

  func status(_ name: String) -> stat {
    var status = stat()
    lstat("\(path)/\(name)", &status)
    return status
  }

  /// Everything that is published: no directories, nothing of the receiver's own.
  func files(below name: String = "files") -> Set<String> {
    var found: Set<String> = []
    var pending = [name]
    while let folder = pending.popLast() {
      guard let directory = opendir("\(path)/\(folder)") else { continue }
      defer { closedir(directory) }
      while let entry = readdir(directory) {
        let child = withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        guard child != ".", child != ".." else { continue }
        var status = stat()
        lstat("\(path)/\(folder)/\(child)", &status)
        if status.st_mode & S_IFMT == S_IFDIR {
          pending.append("\(folder)/\(child)")
        } else {
          found.insert("\(folder)/\(child)")
        }
      }
    }
    return found
  }
}
