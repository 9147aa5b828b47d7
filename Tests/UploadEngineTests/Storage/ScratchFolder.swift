import Glibc
import Threads

@testable import UploadEngine

/// A folder of a test's own, removed with everything in it when the test ends.
final class ScratchFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/uploadfs-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw ScratchError(errno: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { Self.removeTree(path) }

  func callAsFunction(_ name: String) -> String { "\(path)/\(name)" }

  func write(_ bytes: [UInt8], to name: String) throws {
    guard let file = fopen(self(name), "wb") else { throw ScratchError(errno: errno) }
    defer { fclose(file) }
    guard fwrite(bytes, 1, bytes.count, file) == bytes.count else { throw ScratchError(errno: errno) }
  }

  func read(_ name: String) throws -> [UInt8] {
    guard let file = fopen(self(name), "rb") else { throw ScratchError(errno: errno) }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var block = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = fread(&block, 1, block.count, file)
      if count == 0 { return bytes }
      bytes += block[..<count]
    }
  }

  /// The names in it, in byte order.
  func names(in folder: String = "") -> [String] {
    Self.names(in: folder.isEmpty ? path : self(folder))
  }

  func mode(of name: String) -> UInt32 {
    var status = stat()
    return lstat(self(name), &status) == 0 ? status.st_mode & 0o7777 : 0
  }

  private static func names(in folder: String) -> [String] {
    guard let stream = opendir(folder) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  private static func removeTree(_ path: String) {
    if unlink(path) == 0 { return }
    for name in names(in: path) { removeTree("\(path)/\(name)") }
    rmdir(path)
  }
}

struct ScratchError: Error {
  var errno: Int32
}

/// Takes values from any thread and lets a test wait for them.
final class Collector<Value: Sendable>: Sendable {
  private let values = Monitor<[Value]>([])

  func append(_ value: Value) {
    values.withLock { values, signal in
      values.append(value)
      signal.broadcast()
    }
  }

  var all: [Value] { values.withLock { values, _ in values } }

  /// The values once there are `count`, or what there is after a generous deadline.
  func wait(for count: Int) -> [Value] {
    let deadline = monotonicNanoseconds() + 20_000_000_000
    return values.wait { values in
      values.count < count && monotonicNanoseconds() < deadline ? .againBy(nanoseconds: deadline) : .done(values)
    }
  }
}
