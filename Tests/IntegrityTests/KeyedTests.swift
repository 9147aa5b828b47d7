import Integrity
import Testing

@Suite struct KeyedTests {
  /// RFC 4231, cases 1, 2 and 6 (a key longer than a block).
  @Test func hmac_matchesRFC4231() {
    #expect(
      Hex.encode(HMACSHA256.authenticate(Array("Hi There".utf8), key: [UInt8](repeating: 0x0b, count: 20)))
        == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
    #expect(
      Hex.encode(HMACSHA256.authenticate(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8)))
        == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    let message = Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8)
    #expect(
      Hex.encode(HMACSHA256.authenticate(message, key: [UInt8](repeating: 0xaa, count: 131)))
        == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
  }

  @Test func hmac_ofNothingUnderNothing_isDefined() {
    #expect(
      Hex.encode(HMACSHA256.authenticate([], key: []))
        == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
  }

  @Test func isEqual_tellsAnyDifference() {
    let code = pattern(32)
    #expect(HMACSHA256.isEqual(code, code))
    #expect(HMACSHA256.isEqual([], []))
    #expect(!HMACSHA256.isEqual(code, Array(code.dropLast())))
    for position in code.indices {
      var other = code
      other[position] ^= 0x80
      #expect(!HMACSHA256.isEqual(code, other), "difference at \(position)")
    }
  }

  /// RFC 5869, appendix A.1 to A.3.
  @Test func hkdf_matchesRFC5869() throws {
    try expectHKDF(
      key: String(repeating: "0b", count: 22), salt: "000102030405060708090a0b0c", info: "f0f1f2f3f4f5f6f7f8f9",
      output: "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
    try expectHKDF(
      key: Hex.encode(Array(0x00...0x4f)), salt: Hex.encode(Array(0x60...0xaf)), info: Hex.encode(Array(0xb0...0xff)),
      output: "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
        + "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87")
    try expectHKDF(
      key: String(repeating: "0b", count: 22), salt: "", info: "",
      output: "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8")
  }

  @Test func hkdf_derivesUpToItsLimit() {
    let output = HKDFSHA256.derive(inputKey: [1], salt: [], info: [], byteCount: HKDFSHA256.byteCountMax)
    #expect(output.count == 8160)
  }

  /// NIST's GCM test case 14: opening is checked against it, because sealing draws its own nonce.
  @Test func open_readsThePublishedGCMVector() throws {
    let sealed = try bytes(
      "000000000000000000000000" + "cea7403d4d606b6e074ec5d3baf39d18" + "d0d1c8a799996bf0265b98b5d48ab919")
    let key = [UInt8](repeating: 0, count: 32)
    #expect(try AES256GCM.open(sealed, key: key, authenticating: []) == [UInt8](repeating: 0, count: 16))
    // Test case 13: nothing inside.
    let empty = try bytes("000000000000000000000000" + "530f8afbc74536b9a963b4f1c4cb738b")
    #expect(try AES256GCM.open(empty, key: key, authenticating: []) == [])
  }

  @Test(arguments: [0, 1, 16, 100_000])
  func seal_isUndoneByOpenOnly(count: Int) throws {
    let key = try SecureRandom.bytes(32)
    let context = Array("context".utf8)
    let plaintext = pattern(count)
    let sealed = try AES256GCM.seal(plaintext, key: key, authenticating: context)
    #expect(sealed.count == 12 + count + 16)
    #expect(try AES256GCM.open(sealed, key: key, authenticating: context) == plaintext)
    #expect(throws: IntegrityError.notAuthentic) {
      try AES256GCM.open(sealed, key: key, authenticating: Array("other".utf8))
    }
    #expect(throws: IntegrityError.notAuthentic) {
      try AES256GCM.open(sealed, key: try SecureRandom.bytes(32), authenticating: context)
    }
    for position in [0, 11, 12, sealed.count - 17, sealed.count - 16, sealed.count - 1] {
      var damaged = sealed
      damaged[position] ^= 1
      #expect(throws: IntegrityError.notAuthentic, "byte \(position)") {
        try AES256GCM.open(damaged, key: key, authenticating: context)
      }
    }
  }

  @Test func seal_neverRepeatsANonce() throws {
    let key = try SecureRandom.bytes(32)
    let nonces = try (0..<100).map { _ in try AES256GCM.seal([], key: key, authenticating: []).prefix(12) }
    #expect(Set(nonces).count == 100)
  }

  @Test func open_refusesWhatIsTooShortOrHasAWrongKey() {
    for count in 0..<28 {
      #expect(throws: IntegrityError.notAuthentic) {
        try AES256GCM.open(pattern(count), key: pattern(32), authenticating: [])
      }
    }
    #expect(throws: IntegrityError.keySize(expected: 32, actual: 31)) {
      try AES256GCM.open(pattern(28), key: pattern(31), authenticating: [])
    }
    #expect(throws: IntegrityError.keySize(expected: 32, actual: 0)) {
      try AES256GCM.seal([], key: [], authenticating: [])
    }
  }

  @Test func randomBytes_areAsManyAsAskedForAndDiffer() throws {
    #expect(try SecureRandom.bytes(0).isEmpty)
    #expect(try SecureRandom.bytes(-1).isEmpty)
    #expect(try SecureRandom.bytes(33).count == 33)
    #expect(try SecureRandom.bytes(32) != SecureRandom.bytes(32))
  }
}

private func bytes(_ text: String) throws -> [UInt8] {
  try #require(Hex.decode(text))
}

private func expectHKDF(
  key: String, salt: String, info: String, output: String, sourceLocation: SourceLocation = #_sourceLocation
) throws {
  let derived = HKDFSHA256.derive(
    inputKey: try bytes(key), salt: try bytes(salt), info: try bytes(info), byteCount: output.utf8.count / 2)
  #expect(Hex.encode(derived) == output, sourceLocation: sourceLocation)
}
