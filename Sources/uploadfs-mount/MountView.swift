import CLinux
import FileModel
import Glibc
import MountConfiguration
import UploadEngine
import UploadFS

/// A mount as every other process sees it: through the files that it shows.
struct MountView {
  /// The mount point as the user gave it, without slashes at the end.
  let mountPoint: String

  var summaryPath: String { "\(mountPoint)/.uploadfs/summary.json" }

  /// A mount with a living daemon; anything else is an error that says what to do.
  init(_ text: String) throws(ToolFailure) {
    let bytes = text.utf8.reversed().drop { $0 == UInt8(ascii: "/") }.reversed()
    mountPoint = bytes.isEmpty ? "/" : String(decoding: bytes, as: UTF8.self)
    _ = try summary()
    // A copy of a summary, or another filesystem that shows one, says what was, of files and a process that have nothing to do with it.
    guard !UploadMounts.areShown || UploadMounts.current.isMounted(at: mountPoint) else { throw isNoMount }
  }

  /// What is wrong with a folder that only looks like a mount.
  var isNoMount: ToolFailure {
    ToolFailure(.notAMount, "\(mountPoint) is not a mounted uploadfs, though it holds the summary of one")
  }

  func summary() throws(ToolFailure) -> SummaryReading {
    try SummaryReading(try summaryText())
  }

  /// The summary's JSON.
  func summaryText() throws(ToolFailure) -> [UInt8] {
    do {
      return try WholeFile.read(summaryPath, bytesMax: 16 << 20)
    } catch {
      throw unreachable(error.code)
    }
  }

  /// What is known of every name of a file, in the order of ``statusTexts()``: from the pages of a daemon of this version, for the user who has
  /// mounted it. Nil where there are none, or one cannot be read.
  func listedFiles() -> [ListedFile]? {
    var files: [ListedFile] = []
    var next: FileID? = StatusPage.first
    while let id = next {
      guard let bytes = try? WholeFile.read("\(mountPoint)/.uploadfs/files/\(id)", bytesMax: 256 << 20),
        let page = StatusPage(bytes)
      else { return nil }
      files += page.files
      next = page.next
    }
    return ListedFile.inOrderOfNames(files)
  }

  /// The status of every name of a file, as JSON, in the order of these. What vanishes meanwhile is left out.
  func statusTexts() throws(ToolFailure) -> [(path: RelativePath, text: [UInt8])] {
    let suffix = Array(".json".utf8)
    var texts: [(path: RelativePath, text: [UInt8])] = []
    var folders = [RelativePath.root]
    while let folder = folders.popLast() {
      let descriptor = openStatus(folder)
      guard descriptor >= 0 else { continue }
      defer { close(descriptor) }
      var inner: [RelativePath] = []
      for entry in DirectoryListing.entries(of: descriptor) {
        let path = folder.appending(entry.name)
        switch entry.kind {
        case .directory: inner.append(path)
        case .file:
          let file = uploadfs_openat(descriptor, cText(entry.name[...]), O_RDONLY | O_CLOEXEC, 0)
          guard file >= 0 else { continue }
          defer { close(file) }
          guard let text = try? WholeFile.read(file, bytesMax: 1 << 20) else { continue }
          texts.append((RelativePath(bytes: Array(path.bytes.dropLast(suffix.count))), text))
        // The short form points to a file that is listed under its whole path as well.
        case .other: break
        }
      }
      folders += inner.reversed()
    }
    return texts
  }

  /// A folder below `status`, or -1.
  private func openStatus(_ folder: RelativePath) -> Int32 {
    openStatus(folder.bytes[...], O_RDONLY | O_DIRECTORY | O_CLOEXEC)
  }

  /// What stands at a path below `status`, or -1. The path may be longer than one call takes.
  func openStatus(_ path: ArraySlice<UInt8>, _ flags: Int32) -> Int32 {
    let slash = UInt8(ascii: "/")
    var rest = Array("\(mountPoint)/status".utf8 + [slash] + path)[...]
    var folder = AT_FDCWD
    while true {
      var piece = rest.prefix(MountView.pathBytesMax)
      if piece.count < rest.count, let end = piece.lastIndex(of: slash) { piece = piece[..<end] }
      rest = rest[piece.endIndex...].drop { $0 == slash }
      let isLast = rest.isEmpty
      // Those on the way need not be readable.
      let next = uploadfs_openat(folder, cText(piece), isLast ? flags : uploadfs_o_path | O_DIRECTORY | O_CLOEXEC, 0)
      let code = errno
      if folder != AT_FDCWD { close(folder) }
      errno = code
      guard !isLast, next >= 0 else { return next }
      folder = next
    }
  }

  /// Less than PATH_MAX.
  private static let pathBytesMax = 4000

  private func cText(_ bytes: ArraySlice<UInt8>) -> [CChar] { (bytes + [0]).map { CChar(bitPattern: $0) } }

  /// Reads the summary now and then whenever it has changed.
  func watchSummary() throws(ToolFailure) -> SummaryWatch {
    let descriptor = open(summaryPath, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw unreachable(errno) }
    return SummaryWatch(descriptor: descriptor, mount: self)
  }

  /// The mount that the path leads into; nil when there is none.
  private var around: String? {
    var folder = RealPath.of(mountPoint)
    while let path = folder, path != "/", let slash = path.unicodeScalars.lastIndex(of: "/") {
      let parent = slash == path.startIndex ? "/" : String(path[..<slash])
      if access("\(parent == "/" ? "" : parent)/.uploadfs/summary.json", F_OK) == 0 { return parent }
      folder = parent
    }
    return nil
  }

  func unreachable(_ code: Int32) -> ToolFailure {
    switch code {
    case ENOTCONN, ECONNABORTED, EIO:
      ToolFailure(
        .notAMount,
        "the daemon of \(mountPoint) is gone; start it again with the same spool, or release the mount point with "
          + "fusermount3 -u \(mountPoint)")
    case EACCES, EPERM:
      ToolFailure(
        .notAMount,
        "\(mountPoint) may only be read by the user who mounted it; ask as that user, or mount with --allow-other")
    case ENOENT, ENOTDIR:
      if let around {
        ToolFailure(
          .notAMount, "\(mountPoint) lies inside of a mounted uploadfs; give the mount point itself: \(around)")
      } else {
        ToolFailure(
          .notAMount,
          "\(mountPoint) is not a mounted uploadfs; mount it with: uploadfs-mount mount \(mountPoint) --to … --spool …")
      }
    default:
      ToolFailure(.notAMount, "\(mountPoint) cannot be read: \(systemMessage(code))")
    }
  }
}

/// One open summary. poll(2) on a virtual file reports a change since that descriptor was last read. So no change between
/// reading and waiting is missed, and an unchanged summary is not read again.
struct SummaryWatch: ~Copyable {
  private let descriptor: Int32
  private let mount: MountView

  fileprivate init(descriptor: Int32, mount: MountView) {
    self.descriptor = descriptor
    self.mount = mount
  }

  deinit { close(descriptor) }

  func read() throws(ToolFailure) -> SummaryReading {
    lseek(descriptor, 0, SEEK_SET)
    let text: [UInt8]
    do {
      text = try WholeFile.read(descriptor, bytesMax: 16 << 20)
    } catch {
      throw mount.unreachable(error.code)
    }
    return try SummaryReading(text)
  }

  /// The summary once it has changed, or when the time is over: a daemon's notification can be lost with the daemon.
  func next(within limit: Duration) throws(ToolFailure) -> SummaryReading {
    var wanted = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    poll(&wanted, 1, Int32(min(60_000, max(0, (limit / .milliseconds(1)).rounded(.up)))))
    return try read()
  }
}

private enum DirectoryListing {
  enum Kind {
    case file, directory, other
  }

  /// Entries in byte order, without `.` and `..`; none when the folder cannot be read.
  static func entries(of folder: Int32) -> [(name: [UInt8], kind: Kind)] {
    let descriptor = fcntl(folder, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else { return [] }
    guard let stream = fdopendir(descriptor) else {
      close(descriptor)
      return []
    }
    defer { closedir(stream) }
    var entries: [(name: [UInt8], kind: Kind)] = []
    while let entry = uploadfs_next_child(stream), let bytes = uploadfs_entry_name(entry) {
      let name = UnsafeBufferPointer(start: bytes, count: strlen(bytes)).map { UInt8(bitPattern: $0) }
      let type = Int32(entry.pointee.d_type)
      entries.append((name, type == DT_DIR ? .directory : type == DT_REG ? .file : .other))
    }
    return entries.sorted { $0.name.lexicographicallyPrecedes($1.name) }
  }
}
