public import ReceiverCore
import Glibc
import Synchronization

/// Whether the store's folders are where the configuration says. A receipt is given for what lies under the configured path, and
/// for nothing else: a folder that was moved away, or over which another filesystem was mounted, takes no more files.
extension FileStore {
  /// A folder's place as it was said last.
  struct KnownLocations: Sendable {
    var places: [[UInt8]: ConfiguredFolder.Place] = [:]
    /// Paths at which another folder has been taken into use, until that is said.
    var renewed: [String] = []
  }

  /// Fails unless the state is where it was.
  func requireState() throws(StoreFailure) {
    for folder in stateFolders { try folder.requireInPlace() }
  }

  /// The credential's folder, in its place. One that was made there anew is used from now on, if it could be used at a start: the
  /// state does not depend on it.
  func tree(of credential: CredentialID) throws(StoreFailure) -> PublishedTree {
    guard let known = trees.withLock({ $0[credential] }) else { throw .io("the credential has no folder") }
    let place = known.folder.place
    if place == .inPlace { return known }
    guard place == .taken else { throw .misplaced(known.folder.words(for: place)) }
    let fresh: PublishedTree
    do throws(StoreFailure) {
      fresh = try renewed(known)
    } catch {
      throw .misplaced("\(known.folder.words(for: place)); what stands there now \(error.words)")
    }
    // Its user may publish elsewhere by now.
    trees.withLock { if $0[credential]?.folder.pathBytes == fresh.folder.pathBytes { $0[credential] = fresh } }
    knownPlaces.withLock { $0.renewed.append(known.folder.path) }
    return fresh
  }

  /// Opens the folders of credentials that came after the start, or publish elsewhere now, as at a start, and uses them from then on;
  /// all of them or none. Those of credentials that went stay: what is on its way to them arrives.
  public func adopt(_ roots: [CredentialID: String]) throws(StoreOpeningError) {
    let known = trees.withLock { $0.mapValues(\.folder.pathBytes) }
    var fresh: [CredentialID: PublishedTree] = [:]
    for (credential, path) in roots where known[credential] != Array(path.utf8) {
      fresh[credential] = try FileStore.tree(path, beside: ownFolders, names, beforeSync)
    }
    trees.withLock { $0.merge(fresh) { _, fresh in fresh } }
  }

  /// Looks at every folder; what has changed since the last look, for the log. Called about once a second.
  public func checkFolders() -> [FolderNotice] {
    var notices: [FolderNotice] = []
    var places: [[UInt8]: (place: ConfiguredFolder.Place, words: String)] = [:]
    for folder in stateFolders { places[folder.pathBytes] = (folder.place, folder.words(for: folder.place)) }
    for credential in trees.withLock({ Array($0.keys) }) {
      do throws(StoreFailure) {
        let folder = try tree(of: credential).folder
        places[folder.pathBytes] = (.inPlace, folder.words(for: .inPlace))
      } catch {
        guard let folder = trees.withLock({ $0[credential]?.folder }) else { continue }
        places[folder.pathBytes] = (folder.place, error.words)
      }
    }
    knownPlaces.withLock { known in
      for path in known.renewed {
        notices.append(
          FolderNotice(words: "\(path) was made anew; files are published there from now on", isTrouble: true))
      }
      known.renewed = []
      for (path, look) in places.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) })
      where known.places[path, default: .inPlace] != look.place {
        notices.append(FolderNotice(words: look.words, isTrouble: look.place != .inPlace))
      }
      known.places = places.mapValues(\.place)
    }
    return notices
  }

  /// Folders that were not in their place at the last look.
  public var foldersAway: Int { knownPlaces.withLock { $0.places.values.count { $0 != .inPlace } } }
}
