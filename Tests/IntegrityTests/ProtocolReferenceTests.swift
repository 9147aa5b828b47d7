import Promises
import ProtocolReference
import Testing

/// The reference of the other tests, against published vectors.
@Suite struct ProtocolReferenceTests {
  /// FIPS 180-4's examples, and the lengths around a block's end.
  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    (String(repeating: "a", count: 55), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"),
    (String(repeating: "a", count: 64), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
  ])
  func sha256_isThePublishedOne(text: String, expected: String) {
    #expect(ProtocolReference.hex(ProtocolReference.sha256(Array(text.utf8))) == expected)
  }

  @Test func crc32c_isThePublishedOne() {
    #expect(ProtocolReference.crc32c(Array("123456789".utf8)) == 0xe306_9283)
    #expect(ProtocolReference.crc32c([UInt8](repeating: 0, count: 32)) == 0x8a91_36aa)
  }

  @Test func merkleRoot_isThePublishedOne() {
    let inputs = CertificateTransparencyVectors.inputs.map(bytes)
    for (count, root) in CertificateTransparencyVectors.roots.enumerated() {
      #expect(ProtocolReference.hex(ProtocolReference.merkleRoot(inputs.prefix(count))) == root, "\(count) leaves")
    }
  }

  /// RFC 4231, test case 2, and RFC 5869, test case 3, the first of its blocks.
  @Test func hmacAndHKDF_areThePublishedOnes() {
    let mac = ProtocolReference.hmac(Array("Jefe".utf8), Array("what do ya want for nothing?".utf8))
    #expect(ProtocolReference.hex(mac) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    let key = ProtocolReference.hkdf([UInt8](repeating: 0x0b, count: 22), salt: [], info: [])
    #expect(ProtocolReference.hex(key) == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")
  }

  @Test(.promises("P88")) func tag_isTheDocumentsExample() {
    let mac = ProtocolReference.mac(
      secret: "example-token", nonce: Array(0..<32), sessionID: "0123456789abcdef", index: 7, Array("abc".utf8))
    #expect(ProtocolReference.hex(mac) == "690f364446be8dce993c38240cccb856a481f3daa0b566880bff7e31de5a52f7")
  }

  private func bytes(_ hex: String) -> [UInt8] {
    stride(from: 0, to: hex.utf8.count, by: 2).compactMap { UInt8(hex.dropFirst($0).prefix(2), radix: 16) }
  }
}
