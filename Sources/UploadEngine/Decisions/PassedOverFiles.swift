import FileModel
import Lookup

/// Files of which a chunk was chosen and could not be sent. Such a file would be chosen again at once, for ever: the
/// others have their turn.
struct PassedOverFiles: Sendable {
  private var inThisPass: LookupSet<FileID> = []
  private var reported: LookupSet<FileID> = []

  func contains(_ id: FileID) -> Bool { inThisPass.contains(id) }

  mutating func beginPass() { inThisPass = [] }

  mutating func insert(_ id: FileID) { inThisPass.insert(id) }

  /// True once for each file: the next pass may find the same.
  mutating func isToBeSaid(of id: FileID) -> Bool { reported.insert(id).inserted }
}
