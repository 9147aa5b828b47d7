import Integrity
import Testing

@Suite struct DigestTests {
  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
  ])
  func sha256_matchesThePublishedVectors(text: String, expected: String) {
    #expect(Hex.encode(sha256(Array(text.utf8))) == expected)
  }

  @Test func sha256Hasher_givesTheSameForAnySplit() {
    let bytes = pattern(10_000)
    for split in [0, 1, 63, 64, 65, 9_999, 10_000] {
      var hasher = SHA256Hasher()
      bytes[..<split].withUnsafeBytes { hasher.update($0) }
      bytes[split...].withUnsafeBytes { hasher.update($0) }
      #expect(hasher.finalize() == sha256(bytes), "split at \(split)")
    }
  }

  @Test func crc32c_isTheStandardOne() {
    #expect(crc32c(Array("123456789".utf8)) == 0xE306_9283)
    #expect(crc32c([]) == 0)
    // RFC 3720, B.4.
    #expect(crc32c([UInt8](repeating: 0, count: 32)) == 0x8A91_36AA)
    #expect(crc32c([UInt8](repeating: 0xff, count: 32)) == 0x62A8_AB43)
    #expect(crc32c(Array(0..<32)) == 0x46DD_794E)
  }

  @Test func crc32c_continuesWhereThePreviousBytesEnded() {
    let bytes = pattern(5_000)
    for split in [0, 1, 7, 4_096, 5_000] {
      let first = crc32c(Array(bytes[..<split]))
      let whole = bytes[split...].withUnsafeBytes { CRC32C.checksum($0, continuing: first) }
      #expect(whole == crc32c(bytes), "split at \(split)")
    }
  }

  @Test(arguments: [0, 1, 127, 128, 129, 128 << 10, (128 << 10) + 1, 300_000])
  func chunkHasher_givesBothDigestsWhateverTheBlocks(count: Int) {
    let bytes = pattern(count)
    for blockBytes in [1 << 7, 128 << 10] {
      var hasher = ChunkHasher(blockBytes: blockBytes)
      bytes[..<(count / 3)].withUnsafeBytes { hasher.update($0) }
      bytes[(count / 3)...].withUnsafeBytes { hasher.update($0) }
      let digest = hasher.finalize()
      #expect(digest.sha256 == sha256(bytes))
      #expect(digest.crc32c == crc32c(bytes))
    }
  }
}

/// Bytes that repeat with no power of two.
func pattern(_ count: Int) -> [UInt8] {
  (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }
}

private func crc32c(_ bytes: [UInt8]) -> UInt32 {
  bytes.withUnsafeBytes { CRC32C.checksum($0) }
}
