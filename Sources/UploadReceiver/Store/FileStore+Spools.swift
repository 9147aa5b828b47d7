public import ReceiverCore
import Glibc
import Synchronization

/// The last starts of spools, in one file that is exchanged as a whole. Losing it loses no upload: a spool that is not remembered is
/// taken as it comes.
extension FileStore {
  private static let spools = "spools"
  private static let spoolsBytesMax = 64 << 20

  /// What could not be read is not known, so nothing is written in its place.
  func recoverSpools(into state: inout RecoveredState) {
    do throws(StoreFailure) {
      guard try FileDescriptor.kind(of: FileStore.spools, in: self.state) != nil else { return }
      let file = try FileDescriptor.openOwn(FileStore.spools, in: self.state, O_RDONLY)
      let bytes = try file.readAll(limit: FileStore.spoolsBytesMax)
      let contents = JournalFraming.read(bytes)
      var lost = contents.damagedBytes + bytes.count - contents.validBytes
      for payload in contents.payloads {
        if case .spool(let record)? = JournalRecord(payload) {
          state.spools.append(record)
        } else {
          // Zeros are records of nothing.
          lost += JournalFraming.headerBytes + payload.count
        }
      }
      if lost > 0 {
        state.spoolTrouble = "\(lost) bytes of \(FileStore.spools) are damaged; the spools there are forgotten"
      }
    } catch {
      keepsSpools.store(true, ordering: .relaxed)
      state.spoolTrouble =
        "\(error.words): which spools were restored or run twice is known from now on only, and until the next start. "
        + "Take \(FileStore.spools) away, no upload depends on it"
    }
  }

  /// Exchanges the file.
  public func save(_ spools: [SpoolRecord]) throws(StoreFailure) {
    guard !keepsSpools.load(ordering: .relaxed) else { return }
    try requireState()
    let bytes = JournalFraming.bytes(of: spools.map { JournalRecord.spool($0).bytes })
    let fresh = "\(FileStore.spools).new"
    // What lies there is of a receiver that died, or no file.
    unlinkat(state.raw, fresh, 0)
    let file = try FileDescriptor.openOwn(fresh, in: state, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
    try FileStore.write(bytes, to: file, at: 0)
    try beforeSync(.spools)
    try file.sync()
    guard renameat(state.raw, fresh, state.raw, FileStore.spools) == 0 else { throw .last("rename") }
    try state.sync()
  }
}
