import Testing

@testable import CurlTransport

@Suite struct PeerCertificateTests {
  @Test func linesOfLibcurlAreUnderstood() {
    let certificate = PeerCertificate(lines: [
      "Subject:CN = upload.example.org", "Issuer:C = XX, CN = Authority: 1", "Start date:Nov  2 00:00:00 2026 GMT",
      "Expire date:Feb 29 23:59:59 2028 GMT",
      "X509v3 Subject Alternative Name:DNS:upload.example.org, IP Address:127.0.0.1", "nonsense",
    ])
    #expect(certificate.issuer == "C = XX, CN = Authority: 1" && !certificate.isSelfSigned)
    #expect(certificate.names == ["DNS:upload.example.org", "IP Address:127.0.0.1"])
    #expect(certificate.validFromSeconds == 1_793_577_600)
    #expect(certificate.validUntilSeconds == 1_835_481_599)
    #expect(CertificateTime.seconds("soon") == nil && CertificateTime.seconds("Nov 2 24:00:00 2026 GMT") == nil)
  }

  @Test func namesCoverHostsAsVerificationHasIt() {
    var certificate = PeerCertificate()
    certificate.names = [
      "DNS:*.Example.org", "DNS:example.net", "IP Address:192.0.2.1", "IP Address:2001:DB8:0:0:0:0:0:7",
    ]
    for host in ["a.example.org", "example.net", "EXAMPLE.net", "192.0.2.1", "2001:db8::7"] {
      #expect(certificate.covers(host), "\(host)")
    }
    for host in ["example.org", "a.b.example.org", "xexample.net", "192.0.2.11", "2001:db8::8", "::"] {
      #expect(!certificate.covers(host), "\(host)")
    }
  }
}
