import FileModel
import Integrity
import UploadEngine

/// Bytes that are sent for a test.
///
/// Sendable is unchecked because of the pointer: the memory is written once, before anyone else knows it, and freed when
/// nobody refers to it any more.
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
}

/// A file that exists only to be sent.
struct TrialFile: Sendable {
  var path: RelativePath
  var content: TrialContent
  var id: FileID
  var nonce: [UInt8]
  var modifiedNanoseconds: Int64

  /// A small text under a name that nobody takes for a capture. The same machine uses the same name again, so that servers
  /// whose files cannot be taken away keep one of them.
  static func note(host: String, nowNanoseconds: Int64) throws(IntegrityError) -> TrialFile {
    let name = host.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }.prefix(64)
    let time = Timestamp.text(millisecondsSince1970: nowNanoseconds / 1_000_000)
    let text = "A test file of “uploadfs-mount doctor”, sent by \(name) at \(time). It can be deleted.\n"
    return try TrialFile(
      path: RelativePath("uploadfs-doctor-\(name.isEmpty ? "test" : String(name)).txt"), content: Array(text.utf8),
      nowNanoseconds: nowNanoseconds)
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
