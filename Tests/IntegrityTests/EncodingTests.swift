import Integrity
import Testing

@Suite struct EncodingTests {
  @Test func hex_roundTrips() {
    let bytes = Array(UInt8.min...UInt8.max)
    #expect(Hex.decode(Hex.encode(bytes)) == bytes)
    #expect(Hex.decode(Hex.encode(bytes).uppercased()) == bytes)
    #expect(Hex.encode([]) == "")
    #expect(Hex.encode([0x0f, 0xf0]) == "0ff0")
  }

  @Test(arguments: ["0", "0g", "+1", " 1", "0x", "é", "00 "])
  func hex_refusesAnythingElse(text: String) {
    #expect(Hex.decode(text) == nil)
  }

  /// RFC 4648, section 10.
  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ])
  func base64_matchesRFC4648(plain: String, text: String) {
    #expect(Base64.encode(Array(plain.utf8)) == text)
    #expect(Base64.decode(text) == Array(plain.utf8))
  }

  @Test func base64_roundTrips() throws {
    for count in 0..<100 {
      let bytes = try SecureRandom.bytes(count)
      #expect(Base64.decode(Base64.encode(bytes)) == bytes, "\(bytes)")
    }
  }

  @Test(arguments: ["Zg", "Zg=", "Zh==", "Zm9=", "====", "Z===", "Zg==Zg==", "Zm9v\n", "Zm-_", "=Zg="])
  func base64_refusesWhatItWouldNotWrite(text: String) {
    #expect(Base64.decode(text) == nil)
  }
}
