import FileModel
import Glibc
import MountConfiguration
import UploadEngine

/// One file of a mount. Names are bytes.
extension MountView {
  /// A path in the mount, as its user gave it: relative to the mount, or absolute and below the mount point.
  func relativePath(of path: [UInt8]) throws(ToolFailure) -> [UInt8] {
    let slash = UInt8(ascii: "/")
    var inside: ArraySlice<UInt8>?
    for root in [mountPoint, RealPath.of(mountPoint)].compactMap({ $0 }) where path.starts(with: (root + "/").utf8) {
      inside = inside ?? path.dropFirst(root.utf8.count)
    }
    guard inside != nil || path.first != slash else { throw isNotBelow(path) }
    var components: [ArraySlice<UInt8>] = []
    for component in (inside ?? path[...]).split(separator: slash) {
      switch String(decoding: component, as: UTF8.self) {
      case ".": continue
      // It must not lead to a capture that only looks like a status.
      case "..": if components.popLast() == nil { throw isNotBelow(path) }
      default: components.append(component)
      }
    }
    guard !components.isEmpty else { throw isNotBelow(path) }
    return Array(components.joined(separator: [slash]))
  }

  /// The status of one file, as JSON.
  func statusText(of relative: [UInt8]) throws(ToolFailure) -> [UInt8] {
    do throws(SystemError) {
      let descriptor = openStatus(of: relative, O_RDONLY)
      guard descriptor >= 0 else { throw SystemError.last }
      defer { close(descriptor) }
      return try WholeFile.read(descriptor, bytesMax: 1 << 20)
    } catch {
      let name = Readable.line(RelativePath(bytes: relative).displayText)
      if error.code == EACCES {
        throw ToolFailure(.notAMount, "the status of \(name) is for those who may read the file itself")
      }
      throw missing(name, error.code)
    }
  }

  /// Writes an order to the status of a file in one call; `failure` says what it means that it was not taken.
  func write(
    _ order: [UInt8], toStatusOf relative: [UInt8], failure: (_ code: Int32) -> ToolFailure
  ) throws(ToolFailure) {
    let descriptor = openStatus(of: relative, O_WRONLY)
    guard descriptor >= 0 else {
      let code = errno
      guard code == EACCES || code == EROFS else {
        throw missing(Readable.line(RelativePath(bytes: relative).displayText), code)
      }
      throw failure(code)
    }
    defer { close(descriptor) }
    var written: Int
    repeat { written = Glibc.write(descriptor, order, order.count) } while written < 0 && errno == EINTR
    guard written < 0 else { return }
    let code = errno
    switch code {
    case ENOTCONN, ECONNABORTED: throw unreachable(code)
    default: throw failure(code)
    }
  }

  /// The document of a file, or -1. Where a folder of captures has its name, it has one suffix more.
  private func openStatus(of relative: [UInt8], _ flags: Int32) -> Int32 {
    let suffix = Array(".json".utf8)
    let descriptor = openStatus((relative + suffix)[...], flags | O_CLOEXEC)
    guard descriptor < 0 ? errno == EISDIR : Self.isFolder(descriptor) else { return descriptor }
    if descriptor >= 0 { close(descriptor) }
    return openStatus((relative + suffix + suffix)[...], flags | O_CLOEXEC)
  }

  private static func isFolder(_ descriptor: Int32) -> Bool {
    var status = stat()
    return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  private func isNotBelow(_ path: [UInt8]) -> ToolFailure {
    ToolFailure(.usage, "\(Readable.line(String(decoding: path, as: UTF8.self))) is no file below \(mountPoint)")
  }

  private func missing(_ name: String, _ code: Int32) -> ToolFailure {
    guard code == ENOENT || code == ENOTDIR || code == EISDIR || code == ENAMETOOLONG else { return unreachable(code) }
    return ToolFailure(.usage, "there is no file \(name) in \(mountPoint)")
  }
}

/// Where a path leads to.
enum RealPath {
  /// Nil when nothing is there, and when that is no UTF-8: as a text it would be another place.
  static func of(_ path: String) -> String? {
    guard let found = realpath(path, nil) else { return nil }
    defer { free(found) }
    return String(validatingCString: found)
  }
}
