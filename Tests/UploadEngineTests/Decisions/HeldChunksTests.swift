import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// What a server that was restored from an older copy says of what it had acknowledged.
@Suite struct HeldChunksTests {
  private static func digest(_ byte: UInt8) -> ChunkDigest {
    ChunkDigest(sha256: sha256([byte]), crc32c: UInt32(byte))
  }

  @Test(.promises("S72i"), arguments: [nil, 9] as [UInt8?])
  func whatIsLostAtTheServer_countsOnlyWhenItIsThereAgain(instead: UInt8?) {
    let held = HeldChunks()
    for index in 0..<3 { held.acknowledge(Self.digest(UInt8(index)), at: index) }
    var digests = LookupTable((0..<3).map { ($0, Self.digest(UInt8($0)).sha256) })
    digests[1] = instead.map { Self.digest($0).sha256 }
    for _ in 0..<2 {
      held.replace(with: digests)
      #expect(held.acknowledged[1] == nil && held.reportedDigest(of: 1) == nil)
      #expect(held.acknowledged[2] == Self.digest(2) && held.everAcknowledged[1] == Self.digest(1))
    }
    digests[1] = Self.digest(1).sha256
    held.replace(with: digests)
    #expect(held.acknowledged[1] == Self.digest(1))
  }

  @Test func whatIsSentAgain_isNotLostAnyMore() {
    let held = HeldChunks()
    held.acknowledge(Self.digest(1), at: 0)
    held.lose(0)
    #expect(held.acknowledged[0] == nil && held.everAcknowledged[0] == Self.digest(1))
    held.acknowledge(Self.digest(2), at: 0)
    #expect(held.everAcknowledged[0] == Self.digest(2))
    held.lose(0)
    // Its writer has written over it.
    #expect(held.isOutdated(0) && held.everAcknowledged[0] == nil)
  }

  @Test func aTokenOfOtherBytes_bringsNothingBack() {
    let held = HeldChunks()
    held.acknowledge(Self.digest(1), at: 0, token: "first")
    for _ in 0..<2 {
      held.replace(with: [:], tokens: [0: "second"])
      #expect(held.acknowledged[0] == nil)
    }
  }
}
