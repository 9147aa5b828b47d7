import ChunkProtocol
import Integrity
import Testing

@testable import ReceiverCore

@Suite struct PublicationMarkTests {
  private func mark(_ fileID: String) -> PublicationMark {
    PublicationMark(
      fileID: fileID, merkleRoot: sha256([1]), chunkBytes: 4 << 20, sizeBytes: .max - 1, modifiedNanoseconds: -5)
  }

  private static let digits = "00112233445566778899aabbccddeeff"

  @Test("An attribute that finds no room in the inode costs a block of the disk for each file")
  func markOfACapture_isSmall() {
    #expect(mark(Self.digits).bytes.count == 60)
  }

  @Test(arguments: [
    digits, "f", "the file of ü", digits.uppercased(), digits + "0", String(repeating: "x", count: 255),
  ])
  func marks_areReadBack(fileID: String) {
    let mark = mark(fileID)
    #expect(PublicationMark(bytes: mark.bytes) == mark)
    #expect(mark.bytes.count <= PublicationMark.bytesMax)
  }

  @Test func mark_tellsWhetherItsFileWasChanged() throws {
    let mark = try #require(PublicationMark(bytes: mark(Self.digits).bytes))
    #expect(mark.isUnchanged(sizeBytes: .max - 1, modifiedNanoseconds: -5))
    #expect(!mark.isUnchanged(sizeBytes: .max, modifiedNanoseconds: -5))
    #expect(!mark.isUnchanged(sizeBytes: .max - 1, modifiedNanoseconds: -4))
  }

  @Test func whatIsNoMark_isNotRead() {
    let bytes = mark(Self.digits).bytes
    for count in 0..<bytes.count { #expect(PublicationMark(bytes: Array(bytes[..<count])) == nil, "\(count)") }
    #expect(PublicationMark(bytes: bytes + [0]) == nil)
    // Of a later version, and no text.
    for form in [0, 3, 0xff] as [UInt8] { #expect(PublicationMark(bytes: [form] + bytes[1...]) == nil) }
    #expect(PublicationMark(bytes: mark("f").bytes.dropLast() + [0xff]) == nil)
    #expect(PublicationMark(bytes: mark("f").bytes + [UInt8](repeating: 0x41, count: 300)) == nil)
  }

  @Test func mark_isOfTheClaimWithItsCaptureAndItsBytes() {
    let mark = mark("caf\u{e9}")
    let claim = PublicationClaim(
      fileID: mark.fileID, merkleRoot: mark.merkleRoot, sizeBytes: 9, chunkBytes: nil)
    #expect(mark.isOf(claim))
    for change: (inout PublicationClaim) -> Void in [
      { $0.fileID = "other" }, { $0.fileID = "cafe\u{301}" }, { $0.merkleRoot = sha256([2]) },
    ] {
      var other = claim
      change(&other)
      #expect(!mark.isOf(other))
    }
  }
}
