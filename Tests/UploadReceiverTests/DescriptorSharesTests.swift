import Testing

@testable import UploadReceiver

@Suite struct DescriptorSharesTests {
  /// Regression: 256 uploads took three descriptors each, whatever the limit; then none was left for connections, and
  /// the receiver tried to accept one without a pause.
  @Test(arguments: [128, 256, 512, 1024, 4096, 65_536, .max])
  func connectionsAndUploads_leaveAReserve(limit: Int) {
    let shares = DescriptorShares(limit: limit)
    let forUploads = (shares.sessions + shares.sessions / 2) * DescriptorShares.perSession
    let forPublications = shares.publications * PublicationQueue.jobsMax * DescriptorShares.perPublication
    #expect(shares.connections + forUploads + forPublications <= limit - DescriptorShares.reserve)
    #expect(shares.connections >= 30 && shares.sessions >= 6 && shares.publications >= 2)
  }

  @Test func fewDescriptors_areEnoughForAFew() {
    for limit in [0, 16, 64] {
      #expect(DescriptorShares(limit: limit).connections >= 16 && DescriptorShares(limit: limit).sessions >= 2)
      #expect(DescriptorShares(limit: limit).publications == 1)
    }
  }

  @Test("Regression: 64 descriptors, which are enough for one mount, were called too few, with another number")
  func numberThatIsSaid_isEnoughForItsMounts() {
    let needed = DescriptorShares.needed
    let perMount = 12
    for (mounts, limit) in [
      (1, needed.oneMount), (2, needed.twoMounts), (3, needed.twoMounts + needed.furtherMount),
      (10, needed.twoMounts + 8 * needed.furtherMount),
    ] {
      #expect(DescriptorShares(limit: limit).connections >= mounts * perMount)
    }
    #expect(DescriptorShares.shortageMessage(of: 128) == nil)
    #expect(
      DescriptorShares.shortageMessage(of: 96)
        == "this process may have 96 files open, and takes 18 connections; for one mount it needs 64, for two 128, and 32 for each further one (ulimit -Hn, LimitNOFILE=)"
    )
  }

  @Test func manyDescriptors_areNotAllUsed() {
    let shares = DescriptorShares(limit: .max)
    #expect(shares.connections == 4096 && shares.sessions == 256 && shares.publications == 128)
  }
}
