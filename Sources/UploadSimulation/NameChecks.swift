import ChunkProtocol
import FileModel
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// Checks the names of captures: each has one name as long as it lives under its path, and no two have one, but for
/// those that came under one path one after the other.
final class NameChecks {
  private struct Use: Hashable {
    var file: FileID
    var path: RelativePath
  }

  /// The name of a capture.
  private struct Given: Hashable {
    var use: Use
    var name: RelativePath
  }

  private unowned let world: World
  private unowned let capture: SimulatedCapture
  private var names: LookupTable<Use, RelativePath> = [:]
  /// The latest user of each name.
  private var latest: LookupTable<RelativePath, Use> = [:]
  private var paths: LookupTable<String, [String]> = [:]

  init(_ world: World, _ capture: SimulatedCapture) {
    self.world = world
    self.capture = capture
  }

  /// The paths of captures that may be published under a name.
  func paths(of name: String) -> [String] { paths[name] ?? [] }

  /// A file is gone. Another one may get its inode's number, and with it its identity.
  func forgotten(_ file: FileID) {
    if capture.file(file)?.names.isEmpty ?? true { names = names.filter { use, _ in use.file != file } }
  }

  /// The record begins with the catalog's entries of what was published, or may have been: whatever was only to be sent
  /// had no name.
  func recordBegins(after entries: [CatalogEntry], given: [(file: FileID, origin: PublicationOrigin)]) {
    var known = given.compactMap { file, origin in
      origin.name.map { Given(use: Use(file: file, path: origin.path), name: $0) }
    }
    known += entries.flatMap { entry in
      entry.publishedPaths.map { Given(use: Use(file: entry.id, path: $0), name: $0) }
    }
    // The record cannot name a file without a row.
    let present = LookupSet(entries.map(\.id))
    names = names.filter { use, name in present.contains(use.file) && known.contains(Given(use: use, name: name)) }
    latest = latest.filter { name, use in known.contains { $0.name == name && $0.use.path == use.path } }
  }

  /// A request is about to publish a capture under a name.
  func used(_ name: RelativePath, for file: FileID, at path: RelativePath) {
    let use = Use(file: file, path: path)
    if let before = names[use], before != name, latest[before]?.file == file {
      world.fail(
        .names, "\(file) at \(path.displayText) was called \(before.displayText), and now \(name.displayText)")
    }
    if let other = latest[name], other.file != file {
      if other.path != path {
        world.fail(
          .names,
          "\(path.displayText) is called \(name.displayText), as \(other.path.displayText) of \(other.file) was")
      }
      for living in capture.file(other.file)?.names ?? [] where living != path {
        guard names[Use(file: other.file, path: living)] == name else { continue }
        world.fail(.names, "\(path.displayText) and \(living.displayText) are both called \(name.displayText)")
      }
    }
    let (shown, own) = (PublishedName.encode(name.bytes), PublishedName.encode(path.bytes))
    for (left, content) in world.oracle.evicted where left != own && content.published == shown {
      world.fail(.names, "\(own) is to replace what is nowhere but at \(shown), and was \(left)")
    }
    names[use] = name
    latest[name] = use
    if paths[shown]?.contains(own) != true { paths[shown, default: []].append(own) }
  }
}
