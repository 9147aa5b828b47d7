public import FileModel
import Glibc

/// A page of `.uploadfs/files/`: what `uploadfs-mount status` says of all files, without a document for each.
///
/// Pages are in the order of identities, so that a file that is renamed, changed, loaded or unloaded meanwhile is on one of them. A page is
/// named for the identity after which it begins (``FileID/description``), and holds the name of the next one. It consists of fields, each
/// ended by a zero byte, which no name holds: the format, the next page's name (empty on the last one), and those of ``ListedFile`` for
/// each name of a file. It is of the programs of one version: those of others read the documents.
package struct StatusPage: Hashable, Sendable {
  private static let format = Array("uploadfs-files-1".utf8)
  /// Files of a page: some 600 KB, and 20 ms.
  static let filesMax = 8192
  /// The identity after which the first one begins.
  package static let first = FileID(high: 0, low: 0)

  /// The identity after which the next page begins; nil on the last one.
  package var next: FileID?
  /// One for each name of a file.
  package var files: [ListedFile] = []

  init(after next: FileID?) { self.next = next }

  /// Nil for what is no whole page of this format.
  package init?(_ bytes: [UInt8]) {
    var fields = Fields(bytes)
    guard fields.next()?.elementsEqual(Self.format) == true, let next = fields.next() else { return nil }
    if !next.isEmpty {
      guard let id = FileID(String(decoding: next, as: UTF8.self)) else { return nil }
      self.next = id
    }
    while !fields.isAtEnd {
      guard let file = ListedFile(&fields) else { return nil }
      files.append(file)
    }
  }

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(100 * files.count)
    bytes.append(field: Self.format)
    bytes.append(field: Array((next?.description ?? "").utf8))
    for file in files { file.write(to: &bytes) }
    return bytes
  }

  struct Fields {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func next() -> ArraySlice<UInt8>? {
      let start = position
      let length = bytes.withUnsafeBytes { bytes -> Int? in
        guard let base = bytes.baseAddress, start < bytes.count,
          let end = memchr(base + start, 0, bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(end) - (base + start)
      }
      guard let length else { return nil }
      position = start + length + 1
      return bytes[start..<start + length]
    }

    mutating func nextNumber() -> UInt64? {
      guard let digits = next(), !digits.isEmpty else { return nil }
      var number: UInt64 = 0
      for digit in digits {
        guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
        let (tens, isTooMuch) = number.multipliedReportingOverflow(by: 10)
        let (sum, isOver) = tens.addingReportingOverflow(UInt64(digit - UInt8(ascii: "0")))
        guard !isTooMuch, !isOver else { return nil }
        number = sum
      }
      return number
    }
  }
}

/// What a list of all files says of one of a file's names.
package struct ListedFile: Hashable, Sendable {
  /// The name.
  package var path: RelativePath
  /// In the words of the status file, and `removed` for what was cancelled because it was removed.
  package var state: String
  /// It is in the spool.
  package var isLocal: Bool
  /// Bytes to deliver.
  package var totalBytes: UInt64
  /// How much of them is sent, rounded down.
  package var percent: Int
  /// The rate at which they are sent.
  package var bytesPerSecond: UInt64
  /// What failed, or why its upload takes time; empty where neither is known.
  package var remark: String

  /// Puts the facts together.
  package init(
    path: RelativePath, state: String, isLocal: Bool, totalBytes: UInt64, percent: Int, bytesPerSecond: UInt64,
    remark: String
  ) {
    self.path = path
    self.state = state
    self.isLocal = isLocal
    self.totalBytes = totalBytes
    self.percent = percent
    self.bytesPerSecond = bytesPerSecond
    self.remark = remark
  }

  /// What was removed before it was delivered cannot be resumed.
  package static func shownState(_ state: String, isLocal: Bool) -> String {
    state == FileStatus.State.cancelled.rawValue && !isLocal ? "removed" : state
  }

  /// In the order of a walk over their documents: folder by folder, of each what is in it before what is below it. Of several files of one
  /// name the one that is there.
  package static func inOrderOfNames(_ files: [ListedFile]) -> [ListedFile] {
    let suffix = StatusIndex.suffix
    var folders: [[UInt8]: [(document: [UInt8], position: Int)]] = [:]
    for (position, file) in files.enumerated() {
      // Zeros sort a folder before what is below it, and that before the next one.
      let folder = file.path.parent.bytes.map { $0 == UInt8(ascii: "/") ? 0 : $0 }
      folders[folder, default: []].append((Array(file.path.lastComponent + suffix), position))
    }
    var ordered: [ListedFile] = []
    ordered.reserveCapacity(files.count)
    for (_, documents) in folders.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      let sorted = documents.sorted {
        $0.document == $1.document ? $0.position < $1.position : $0.document.lexicographicallyPrecedes($1.document)
      }
      var last: [UInt8]?
      for (document, position) in sorted {
        guard document == last else {
          ordered.append(files[position])
          last = document
          continue
        }
        if files[position].isLocal { ordered[ordered.count - 1] = files[position] }
      }
    }
    return ordered
  }

  init(_ status: FileStatus, at path: RelativePath) {
    let failure = status.state == .complete ? nil : status.lastFailure?.message
    self.init(
      path: path, state: Self.shownState(status.state.rawValue, isLocal: status.isLocal), isLocal: status.isLocal,
      totalBytes: status.totalBytes, percent: Int(StatusDocument.percent(of: status)),
      bytesPerSecond: UInt64(JSONWriter.rate(status.bytesPerSecond).rounded()),
      remark: failure ?? (status.state == .uploading ? status.reason : nil) ?? "")
  }

  init(_ file: UnloadedFile) {
    self.init(
      path: file.path, state: file.state.rawValue, isLocal: true, totalBytes: file.sizeBytes,
      percent: file.state == .complete ? 100 : 0, bytesPerSecond: 0, remark: file.failure?.message ?? "")
  }

  init?(_ fields: inout StatusPage.Fields) {
    guard let state = fields.next(), let isLocal = fields.nextNumber(), let totalBytes = fields.nextNumber(),
      let percent = fields.nextNumber(), let rate = fields.nextNumber(), let remark = fields.next(),
      let path = fields.next()
    else { return nil }
    self.init(
      path: RelativePath(bytes: Array(path)), state: String(decoding: state, as: UTF8.self), isLocal: isLocal == 1,
      totalBytes: totalBytes, percent: Int(min(percent, 100)), bytesPerSecond: rate,
      remark: String(decoding: remark, as: UTF8.self))
  }

  func write(to bytes: inout [UInt8]) {
    bytes.append(field: state.utf8)
    for number in [isLocal ? 1 : 0, totalBytes, UInt64(max(0, percent)), bytesPerSecond] {
      bytes.append(field: String(number).utf8)
    }
    bytes.append(field: remark.utf8.filter { $0 != 0 })
    bytes.append(field: path.bytes)
  }
}

/// Some of the files that memory does not hold.
public struct UnloadedPage: Sendable {
  /// In the order of their identities.
  public var files: [UnloadedFile] = []
  /// Files of which there are rows as well, and of which memory is to be asked.
  var others: [Other] = []
  /// The identity up to which the page goes; nil where it goes to the end.
  var last: FileID?

  /// None, and there are no others.
  public init() {}

  struct Other: Hashable, Sendable {
    var id: FileID
    var path: RelativePath
    /// What it is like is known once it is loaded.
    var isToLoad: Bool
  }
}

/// What is known of a file that memory does not hold.
public struct UnloadedFile: Hashable, Sendable {
  /// Its identity.
  public var id: FileID
  /// Its name.
  public var path: RelativePath
  /// Whether it is delivered, or waits.
  public var state: FileStatus.State
  /// Bytes in the spool.
  public var sizeBytes: UInt64
  /// Why it waits.
  public var failure: FileStatus.Failure?
}

extension [UInt8] {
  fileprivate mutating func append(field bytes: some Sequence<UInt8>) {
    append(contentsOf: bytes)
    append(0)
  }
}
