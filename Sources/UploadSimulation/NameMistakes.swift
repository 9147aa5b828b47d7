import FileModel
import Lookup

/// Planted mistakes in captures' names. The real record of names makes none of them.
struct NameMistakes {
  private struct Use: Hashable {
    var file: FileID
    var path: RelativePath
  }

  private struct Called {
    var file: FileID
    var name: RelativePath
  }

  /// The identity by which the record is asked for a capture.
  private var identities: LookupTable<FileID, FileID> = [:]
  /// The latest capture at each path, and its name.
  private var latest: LookupTable<RelativePath, Called> = [:]
  /// Names that came to captures with their paths.
  private var inherited: LookupTable<Use, RelativePath> = [:]

  func identity(of file: FileID) -> FileID { identities[file] ?? file }

  func name(of file: FileID, at path: RelativePath) -> RelativePath? { inherited[Use(file: file, path: path)] }

  /// Each capture has the identity of the next one, as by the inode numbers of a spool that was moved.
  mutating func exchange(_ files: [FileID]) {
    identities = [:]
    guard let first = files.first else { return }
    for (file, next) in zip(files, files.dropFirst() + [first]) { identities[file] = next }
  }

  /// A capture gets the path of another one that still exists under another path, and takes its name.
  mutating func inherit(_ file: FileID, at path: RelativePath, isElsewhere: (FileID) -> Bool) {
    guard let former = latest[path], former.file != file, isElsewhere(former.file) else { return }
    inherited[Use(file: file, path: path)] = former.name
  }

  mutating func isCalled(_ name: RelativePath, _ file: FileID, at path: RelativePath) {
    latest[path] = Called(file: file, name: name)
  }

  /// A new record knows no inherited names.
  mutating func recordBegins() { (latest, inherited) = ([:], [:]) }
}
