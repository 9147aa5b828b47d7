import Destinations
import Promises
import Testing

@Suite struct EndpointTests {
  @Test(arguments: [
    ("https://upload.example.org", "https://upload.example.org"), ("HTTPS://Host:8443/", "https://host:8443"),
    ("https://h/a/b//", "https://h/a/b"), ("https://h:443/a%20b", "https://h:443/a%20b"),
    ("https://[2001:DB8::1]:9/x", "https://[2001:db8::1]:9/x"), ("http://localhost:1", "http://localhost:1"),
    ("http://127.0.0.1/x", "http://127.0.0.1/x"), ("http://127.1.2.3:80", "http://127.1.2.3:80"),
    ("http://[::1]:8080", "http://[::1]:8080"), ("https://10.0.0.1", "https://10.0.0.1"),
  ])
  func address_isAccepted(address: String, text: String) throws {
    #expect(try EndpointURL(address, allowPlainHTTP: false).text == text)
  }

  @Test(arguments: [
    "", "upload.example.org", "ftp://h", "https://", "https:///x", "https://h:0", "https://h:65536", "https://h:x",
    "https://h:", "https://h:+1", "https://h:-1", "https://a b", "https://h/a b", "https://h/ü", "https://h\n",
    "https://h/?x", "https://h/#x", "https://h?x", "https://user:pw@h", "https://[::1", "https://[]", "https://[zz]",
    "https://h/../x", "https://h/./x", "https://h/\"x", "https://é", "https://h%2f", "https://[::1]x",
  ])
  func address_isRefused(address: String) {
    let error = #expect(throws: DestinationError.self) { try EndpointURL(address, allowPlainHTTP: true) }
    #expect(error?.code == .invalidURL)
  }

  @Test(
    "Regression: of s3:// it was said that it should begin with https://",
    arguments: [
      ("s3://bucket/x", "s3+https://ENDPOINT/BUCKET"), ("tus://h/files", "tus+https://"), ("form://h", "form+https://"),
      ("ftp://h", "begin with https://, not ftp://"), ("h/x", "begin with https://"),
    ])
  func whatOtherProgramsCallIt_isNamed(address: String, words: String) {
    let error = #expect(throws: DestinationError.self) { try EndpointURL(address, allowPlainHTTP: false) }
    #expect(error?.message.contains(words) == true && error?.message.contains("\n") == false)
  }

  @Test(
    .promises("P2"),
    arguments: [
      "http://example.org", "http://127.0.0.1.example.org", "http://127.0.0.1.5", "http://127.0.0", "http://10.0.0.1",
      "http://[2001:db8::1]",
      "http://localhost.example.org", "http://128.0.0.1", "http://notlocalhost",
    ])
  func plainHTTP_isForThisMachineOnly(address: String) throws {
    let error = #expect(throws: DestinationError.self) { try EndpointURL(address, allowPlainHTTP: false) }
    #expect(error?.code == .plainHTTP)
    #expect(error?.message.contains(address) == true)
    #expect(try EndpointURL(address, allowPlainHTTP: true).isEncrypted == false)
  }

  @Test func error_namesTheAddressButNoSecretAndNoControlCharacter() {
    let secret = #expect(throws: DestinationError.self) {
      try EndpointURL("https://me:hunter2@h", allowPlainHTTP: false)
    }
    #expect(secret?.message.contains("hunter2") == false)
    let control = #expect(throws: DestinationError.self) {
      try EndpointURL("https://h\u{1b}[2J", allowPlainHTTP: false)
    }
    #expect(control?.message.contains("https://h?[2J") == true)
  }

  @Test(arguments: [
    Credential.bearer(""), .bearer("a b"), .bearer("a\r\nX: y"), .bearer("é"), .basic(user: "", password: "x"),
    .basic(user: "a:b", password: "x"), .basic(user: "a", password: "x\n"),
  ])
  func credential_thatCannotBeSent_isRefused(credential: Credential) {
    let error = #expect(throws: DestinationError.self) {
      try ChunkProtocolDestination(baseURL: "https://h", credential: credential)
    }
    #expect(error?.code == .invalidCredential)
  }

  @Test(.promises("DE95")) func credential_doesNotShowItself() {
    for credential in [Credential.bearer("hunter2"), .basic(user: "me", password: "hunter2")] {
      var dumped = ""
      dump(credential, to: &dumped)
      #expect(!"\(credential) \(String(reflecting: credential)) \(dumped)".contains("hunter2"))
    }
  }
}
