import Testing
import TransferModel

/// What servers offer in `Alt-Svc` (RFC 7838, section 3).
@Suite("Alternative services")
struct AlternativeServiceTests {
  private func offered(_ values: String...) -> [AlternativeService]? {
    AlternativeService.offered(in: [HTTPHeader("server", "x")] + values.map { HTTPHeader("alt-svc", $0) })
  }

  @Test("Protocol, host, port and age are read, in all fields")
  func offers() {
    #expect(offered(#"h3=":443"; ma=3600"#) == [AlternativeService("h3", port: 443, maxAge: .seconds(3600))])
    #expect(
      offered(#"h3="alt.example.org:8443" , h2=":80";ma="60";persist=1"#, #"h3="[2001:db8::1]:443""#) == [
        AlternativeService("h3", host: "alt.example.org", port: 8443),
        AlternativeService("h2", port: 80, maxAge: .seconds(60)),
        AlternativeService("h3", host: "[2001:db8::1]", port: 443),
      ])
    #expect(offered(#"h3=":443""#)?.first?.text == #"h3=":443""#)
  }

  @Test("Without the field nothing is said, and “clear” takes back what was said before")
  func clear() {
    #expect(offered() == nil)
    #expect(offered("clear") == [] && offered(#"h3=":443""#, "clear") == [])
  }

  @Test(
    "What is malformed is left out, and the rest counts",
    arguments: [
      "", ",", "=", "h3", "h3=", #"h3="""#, #"h3=":0""#, #"h3=":65536""#, #"h3=":+1""#, #"h3="443""#, #"h3=":443"#,
      #"h3=":443"; ma=-1"#, #"h3=":443"; ma=soon"#, #"h 3=":443""#, #"h3="a b:443""#, #"h3="[]:443""#,
      #"h3="2001:db8::1:443""#, #"much-too-long-a-name-of-a-protocol=":443""#, #"h3="a\r\nb:443""#,
    ])
  func malformed(value: String) {
    #expect(offered(value) == [])
    #expect(offered(value, #"h2=":443""#) == [AlternativeService("h2", port: 443)])
  }

  @Test("However much is offered, a few are kept, and the age is bounded")
  func bounds() {
    let many = (1...100).map { "h3=\":\($0)\"" }.joined(separator: ",")
    #expect(offered(many)?.count == AlternativeService.countMax)
    #expect(offered(String(repeating: "x", count: 1 << 20)) == [])
    #expect(offered(#"h3=":443"; ma=9223372036854775807"#)?.first?.maxAge == .seconds(31_536_000))
  }
}
