import Integrity
import Testing

/// Against OpenSSL, which is used everywhere else.
@Suite(.enabled(if: ChunkHasherPair.isAvailable, "this processor has no SHA instructions"))
struct ChunkHasherPairTests {
  private static let bytes: [UInt8] = (0..<300_000).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }

  private func expectDigests(of first: [UInt8], _ second: [UInt8], inPiecesOf pieceBytes: Int) {
    var pair = ChunkHasherPair()
    first.withUnsafeBytes { first in
      second.withUnsafeBytes { second in
        for start in stride(from: 0, to: max(first.count, second.count), by: pieceBytes) {
          func piece(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(rebasing: bytes[min(start, bytes.count)..<min(start + pieceBytes, bytes.count)])
          }
          pair.update(piece(first), piece(second))
        }
      }
    }
    let digests = pair.finalize()
    for (digest, bytes) in [(digests.first, first), (digests.second, second)] {
      #expect(digest.sha256 == sha256(bytes), "\(bytes.count) bytes in pieces of \(pieceBytes)")
      #expect(digest.crc32c == bytes.withUnsafeBytes { CRC32C.checksum($0, continuing: 0) })
    }
  }

  @Test func everyLengthAroundTheBlockHasOpenSSLsDigest() {
    for count in 0..<200 {
      expectDigests(of: Array(Self.bytes.prefix(count)), Array(Self.bytes.suffix(199 - count)), inPiecesOf: 1 << 17)
    }
  }

  @Test(arguments: [1, 63, 64, 65, 1000, 4096, 1 << 17])
  func piecesOfAnyLengthMakeTheSameDigest(pieceBytes: Int) {
    let (long, short) = (Array(Self.bytes.prefix(10_007)), Array(Self.bytes.suffix(4_129)))
    expectDigests(of: long, short, inPiecesOf: pieceBytes)
    expectDigests(of: short, long, inPiecesOf: pieceBytes)
    expectDigests(of: [], long, inPiecesOf: pieceBytes)
  }

  @Test func longChunksHaveOpenSSLsDigests() {
    expectDigests(of: Self.bytes, Self.bytes.reversed(), inPiecesOf: 1 << 17)
    expectDigests(of: Self.bytes, Array(Self.bytes.prefix(131_073)), inPiecesOf: 1 << 17)
  }

  /// FIPS 180-4's example "abc" and the digest of a million times "a" (NIST's example values).
  @Test func publishedVectorsHold() {
    var pair = ChunkHasherPair()
    [UInt8]("abc".utf8).withUnsafeBytes { first in
      [UInt8](repeating: 0x61, count: 1_000_000).withUnsafeBytes { pair.update(first, $0) }
    }
    let digests = pair.finalize()
    #expect(
      Hex.encode(digests.first.sha256) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(
      Hex.encode(digests.second.sha256) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
  }
}
