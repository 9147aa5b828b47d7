import FileModel
import Integrity
import Quantities
import TransferModel

/// Bytes that are sent for a test.
///
/// Sendable is unchecked because of the pointer: the memory is written once, before it is shared, and freed with
/// the last reference.
final class TrialContent: PinnedBytes, @unchecked Sendable {
  let bytes: UnsafeRawBufferPointer
  let digest: ChunkDigest

  init(_ content: [UInt8]) {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 1)
    memory.copyBytes(from: content)
    bytes = UnsafeRawBufferPointer(memory)
    var hasher = ChunkHasher(blockBytes: UploadConstants.hashBlockBytes)
    hasher.update(bytes)
    let digests = hasher.finalize()
    digest = ChunkDigest(sha256: digests.sha256, crc32c: digests.crc32c)
  }

  deinit { bytes.deallocate() }

  /// The bytes, so many at a time; the last one has the rest.
  func pieces(of byteCount: Int) -> [TrialContent] {
    guard byteCount < bytes.count else { return [self] }
    return stride(from: 0, to: bytes.count, by: byteCount).map { start in
      TrialContent(Array(bytes[start..<min(start + byteCount, bytes.count)]))
    }
  }
}

/// Content of the user's choice, for a server that does not take any file.
public struct TrialSample: Sendable {
  /// Behind the dot; empty for none.
  public var nameExtension: String
  /// All of it.
  public var content: [UInt8]

  /// A larger one is not read.
  public static let bytesMax = 64 << 20

  /// A sample of what a file of this name holds.
  public init(named name: String, content: [UInt8]) {
    let parts =
      name.unicodeScalars.split(separator: "/").last?.split(separator: ".", omittingEmptySubsequences: false) ?? []
    let end = parts.count > 1 ? parts.last.map { String($0) } ?? "" : ""
    nameExtension = end.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } ? end : ""
    self.content = content
  }
}

/// A file that exists only to be sent.
struct TrialFile: Sendable {
  var path: RelativePath
  var content: TrialContent
  var id: FileID
  var nonce: [UInt8]
  var modifiedNanoseconds: Int64

  /// A small text under a name that is not taken for a capture. The same machine uses the same name again, so that servers
  /// whose files cannot be taken away keep one of them.
  static func note(
    host: String, sample: TrialSample? = nil, nowNanoseconds: Int64
  ) throws(IntegrityError) -> TrialFile {
    let name = host.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }.prefix(64)
    let time = Timestamp.text(millisecondsSince1970: nowNanoseconds / 1_000_000)
    let text = "A test file of “uploadfs-mount doctor”, sent by \(name) at \(time). It can be deleted.\n"
    let stem = "uploadfs-doctor-\(name.isEmpty ? "test" : String(name))"
    let end = (sample?.nameExtension ?? "txt").isEmpty ? "" : ".\(sample?.nameExtension ?? "txt")"
    return try TrialFile(
      path: RelativePath(stem + end), content: sample?.content ?? Array(text.utf8), nowNanoseconds: nowNanoseconds)
  }

  /// Under a name beside it.
  var inParts: TrialFile {
    var file = self
    file.path = RelativePath(path.displayText + ".parts")
    return file
  }

  /// Another content for this name, of another length: noise behind a text.
  func another(_ noiseBytes: Int) throws(IntegrityError) -> TrialFile {
    let text = Array("Another test file of “uploadfs-mount doctor”. It can be deleted.\n".utf8)
    return try TrialFile(
      path: path, content: text + SecureRandom.bytes(noiseBytes), nowNanoseconds: modifiedNanoseconds)
  }

  /// A file of bytes that nothing can compress; it is never published.
  static func noise(_ byteCount: Int, nowNanoseconds: Int64) throws(IntegrityError) -> TrialFile {
    try TrialFile(
      path: RelativePath("uploadfs-doctor-test.bin"), content: try SecureRandom.bytes(byteCount),
      nowNanoseconds: nowNanoseconds)
  }

  private init(path: RelativePath, content: [UInt8], nowNanoseconds: Int64) throws(IntegrityError) {
    self.path = path
    self.content = TrialContent(content)
    var generator = SystemRandomNumberGenerator()
    id = FileID.random(using: &generator)
    nonce = try SecureRandom.bytes(32)
    modifiedNanoseconds = nowNanoseconds
  }
}
