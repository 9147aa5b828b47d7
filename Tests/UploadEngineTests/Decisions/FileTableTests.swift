import FileModel
import Testing

@testable import UploadEngine

/// What a file costs that waits for its destination: there may be a hundred thousand.
@Suite struct FileTableTests {
  @Test func facts_takeFewBytes() {
    #expect(MemoryLayout<FileUpload>.size <= 408)
  }

  /// The index of status documents has the names as they were first reported; a later report of the same is no second copy.
  @Test func namesThatAreAsTheyWere_stayInTheirPlace() throws {
    let file = ImaginaryFile(1, "folder/a.mov", size: 4)
    var upload = FileUpload(
      snapshot: file.snapshot, phase: .ready, isOpen: false, changeSequence: 1)
    let known = upload.snapshot.names
    var anew = file.snapshot
    anew.epoch = 2
    anew.names = [RelativePath(bytes: Array("folder/a.mov".utf8))]
    upload.take(anew)
    #expect(upload.snapshot == anew)
    #expect(place(of: upload.snapshot.names) == place(of: known) && place(of: anew.names) != place(of: known))
    anew.names = [RelativePath("folder/b.mov")]
    upload.take(anew)
    #expect(upload.snapshot == anew)
  }

  private func place(of names: [RelativePath]) -> UnsafeRawPointer? {
    names[0].bytes.withUnsafeBytes { $0.baseAddress }
  }
}
