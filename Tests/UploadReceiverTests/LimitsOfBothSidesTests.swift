import ChunkProtocol
import FileModel
import ReceiverCore
import Testing
import TransferModel

/// The receiver states its limits itself, and the client has its own: neither program reads the other's. By default they are
/// the same ones.
@Suite struct LimitsOfBothSidesTests {
  @Test func defaults_areThoseOfTheTable() {
    let limits = CoreLimits()
    #expect(limits.fileBytesMax == UploadConstants.fileBytesMax)
    #expect(limits.chunkBytesMin == UploadConstants.chunkBytesMin)
    // The protocol has chunks of so many bytes taken everywhere (P13).
    #expect(limits.chunkBytesMin <= 262_144 && limits.chunkBytesMax >= 262_144)
    #expect(limits.chunkBytesMax == UploadConstants.chunkBytesMax)
    #expect(limits.headroomBytes == UploadConstants.diskHeadroomBytes + UploadConstants.diskMarginBytes)
    #expect(.milliseconds(limits.sessionMaxAge) == UploadConstants.sessionMaxAge)
    #expect(ProtocolLimits.bundleBytesMax == UploadConstants.bundleBytesMax)
    #expect(ReleasedChunks.chunkBytesMax == UploadConstants.chunkBytesMax)
  }
}
