import FileModel

/// Where marks stand: on the spool's files, or in the spool's record where the disk does not take that. A mark in the record decides against
/// one on the file.
final class MarkStore: Sendable {
  /// The spool's filesystem keeps attributes of files. Without, all marks stand in the record.
  let areOnFiles: Bool
  /// The marks that stand on no file. Its lock is taken below a file's, and held for the local disk.
  let record: MarkRecord
  private let reading: SpoolLabel.Reading

  init(areOnFiles: Bool, record: MarkRecord, reading: @escaping SpoolLabel.Reading) {
    self.areOnFiles = areOnFiles
    self.record = record
    self.reading = reading
  }

  /// What a file says of itself, where files can.
  func label(at place: borrowing SpoolLocation) throws(SystemError) -> SpoolLabel.Found {
    areOnFiles ? try reading(place) : SpoolLabel.nothing
  }

  /// Keeps a mark where it can be kept. A file that is being written, or is not whole, is durably so where the record says it.
  ///
  /// - Parameter putLabel: Puts it on the file; false where the disk does not take it.
  func keep(
    _ mark: WriterStateXattr, of inode: UInt64, as id: FileID, putLabel: () -> Bool
  ) throws(SystemError) {
    if areOnFiles, putLabel() {
      // It would decide against the attribute.
      try record.forget(inode)
    } else if mark == .none, !areOnFiles {
      try record.forget(inode)
    } else {
      try record.keep(mark, of: inode, as: id, durably: mark.isDoubt)
    }
  }
}
