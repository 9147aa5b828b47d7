import Integrity
import Testing

@Suite struct DevelopmentCertificateTests {
  @Test func make_givesThreePEMTexts() throws {
    let made = try DevelopmentCertificate.make(
      hostNames: DevelopmentCertificate.loopbackNames, notBeforeOffsetSeconds: -60, notAfterOffsetSeconds: 3600)
    #expect(made.authorityPEM.hasPrefix("-----BEGIN CERTIFICATE-----\n"))
    #expect(made.chainPEM.hasPrefix("-----BEGIN CERTIFICATE-----\n"))
    #expect(made.keyPEM.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
    #expect(made.authorityPEM != made.chainPEM)
  }

  @Test func make_givesAFreshAuthorityEachTime() throws {
    let make = {
      try DevelopmentCertificate.make(
        hostNames: ["localhost"], notBeforeOffsetSeconds: 0, notAfterOffsetSeconds: 60)
    }
    #expect(try make().authorityPEM != make().authorityPEM)
  }

  @Test(arguments: [[], [""], ["local\0host"]])
  func make_refusesNamesThatAreNone(hostNames: [String]) {
    #expect(throws: IntegrityError.self) {
      try DevelopmentCertificate.make(hostNames: hostNames, notBeforeOffsetSeconds: 0, notAfterOffsetSeconds: 60)
    }
  }
}
