import FileModel
import Testing

@testable import UploadFS

struct KnownLabelTests {
  private static let id = FileID(high: 1, low: 1)
  private static let pointer = SessionPointer(
    chunkBytes: 4096, sessionID: "s", nonce: [1], address: "", credentialMark: nil)

  @Test func labelOfAnotherPointer_keepsWhatLaterVersionsHavePut() {
    var label = KnownLabel(found: nil)
    label.takeOver(pointer: nil, others: ["x"])
    label.point(to: Self.pointer)
    #expect(label.fileLabel(of: Self.id, .none).others == ["x"] && label.pointer == Self.pointer)
    label.point(to: nil)
    #expect(label.fileLabel(of: Self.id, .none) == FileLabel(id: Self.id, mark: .none, others: ["x"]))
  }

  @Test func noChunks_areNothingMissing() {
    var released = ReleasedChunks(chunkBytes: 4096)
    _ = released.insert(3)
    var label = KnownLabel(found: nil)
    label.lacks(released)
    #expect(label.fileLabel(of: Self.id, .none).released == released)
    released.remove(3)
    label.lacks(released)
    #expect(label.released == nil)
  }
}
