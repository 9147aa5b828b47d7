import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct ReadBuffersTests {
  private let reading = ReadBuffers.Reading(file: FileID(high: 0, low: 1), index: 3, isOfGrowingFile: false)

  @Test func buffer_isTakenFromTheOrderOn_untilItIsReleased() {
    var buffers = ReadBuffers()
    let chunk = buffers.begin(reading, in: .chunk(byteCount: 4096))
    let small = buffers.begin(reading, in: .small(isForFrame: true))
    #expect(buffers.chunkBytesInUse == 4096 && buffers.smallInUse == 1)
    #expect(buffers.isForFrame(small) && !buffers.isForFrame(chunk))
    #expect(buffers.ended(chunk, saving: .nothing) == reading)
    #expect(buffers.chunkBytesInUse == 4096, "its bytes wait to be sent")
    for _ in 1...2 {
      buffers.release(chunk)
      #expect(buffers.chunkBytesInUse == 0 && buffers.smallInUse == 1)
    }
    buffers.release(small)
    #expect(buffers.isEmpty && buffers.smallInUse == 0)
  }

  @Test func endOfARead_isToldOnce_andSaysWhatWasSaved() {
    var buffers = ReadBuffers()
    let read = buffers.begin(reading, in: .chunk(byteCount: 4096))
    #expect(buffers.saving(of: read) == .nothing)
    #expect(buffers.ended(read, saving: CompressionSaving(encoding: .lz4, bytes: 100)) == reading)
    #expect(buffers.ended(read, saving: .nothing) == nil)
    #expect(buffers.saving(of: read).bytes == 100)
    buffers.release(read)
    #expect(buffers.saving(of: read) == .nothing && buffers.ended(read, saving: .nothing) == nil)
  }
}
