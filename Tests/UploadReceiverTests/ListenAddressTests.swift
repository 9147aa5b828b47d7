import Testing

@testable import UploadReceiver

/// What `--listen` names.
@Suite struct ListenAddressTests {
  @Test(arguments: [
    ("127.0.0.1:8443", "127.0.0.1", 8443), ("[::1]:0", "::1", 0), ("camera.example:1", "camera.example", 1),
  ])
  func text_isReadAndWritten(_ text: String, _ host: String, _ port: Int) throws {
    let address = try #require(ListenAddress(text))
    #expect(address == ListenAddress(host: host, port: port))
    #expect(address.description == text)
  }

  @Test(arguments: ["", "8443", ":1", "a:", "a:65536", "::1:8443", "[]:1"]) func other_isNone(_ text: String) {
    #expect(ListenAddress(text) == nil)
  }

  @Test("Regression: localhost was 127.0.0.1 alone, and a client that took ::1 was refused")
  func localhost_isBothLoopbackAddresses() throws {
    let places = try #require(ListenAddress("localhost:8443")).places
    #expect(places.map(\.description) == ["127.0.0.1:8443", "[::1]:8443"])
    // A machine may have no IPv6.
    #expect(places.map(\.isOptional) == [false, true])
    // With any port, the two would get two.
    #expect(try #require(ListenAddress("localhost:0")).places.map(\.description) == ["127.0.0.1:0"])
    #expect(try #require(ListenAddress("[::1]:1")).places.count == 1)
  }
}
