import FileModel
import Lookup
import UploadEngine

/// What a client has published under which names, and may have: the real record of it, which outlives the process. What is about to
/// be published is written at once; what was published with the catalog, as the disk allows.
final class SimulatedPublications {
  private unowned let world: World
  /// In memory: a power cut takes nothing of it.
  private(set) var catalog: Catalog?
  /// That of this start; nil where the destination cannot tell whose a name is.
  private var index: PublicationIndex?
  private let destination: () -> any Destination

  private let replaces: Bool
  /// Of these nothing was heard, or that they were refused.
  private var sent: [PublicationIndex.Sent] = []
  /// What was heard of these the record does not have yet: a start after a kill has not heard it.
  private var unsaved: [PublicationIndex.Sent] = []
  /// Numbers that captures may have had when the right to them was asked for.
  private var withheld: LookupSet<Withheld> = []

  private struct Withheld: Hashable {
    var name: String
    var holder: FileID
    var claimant: FileID
  }

  /// Where the destination lies, nothing of it is known.
  init(_ world: World, isLiedTo: Bool, replaces: Bool, destination: @escaping () -> any Destination) {
    self.world = world
    self.destination = destination
    self.replaces = replaces
    if isLiedTo { world.knowsOwners = false }
    world.publicationRecords.append(self)
  }

  func start() {
    guard destination().abilities.ifExists != nil else { return }
    do throws(StorageError) {
      let known: Catalog
      if let catalog { known = catalog } else { known = try Catalog.inMemory() }
      catalog = known
      index = PublicationIndex(catalog: known)
    } catch {
      world.fail(.owners, "the record of publications cannot be opened: \(error.message)")
    }
  }

  func die() {
    index = nil
    sent += unsaved
    unsaved = []
  }

  /// The spool's state is gone: from now on what was published before is another one's.
  func lose() {
    if catalog != nil { world.knowsOwners = false }
    catalog = nil
  }

  func right(
    to name: RelativePath, of file: FileID, at path: RelativePath, _ names: PublishedNames?
  ) -> NameRight? {
    guard let index, let usual = destination().abilities.ifExists else { return nil }
    let ifExists = replaces || world.bug == .replaceOthers ? .replace : usual
    let claimant = PublicationIndex.Claimant(file, at: path, called: name, names)
    let published = destination().publishedName(for: name)
    withhold(published, from: file)
    do throws(StorageError) {
      return try index.right(to: published, for: claimant, ifExists)
    } catch {
      world.fail(.owners, "the record of publications cannot be read: \(error.message)")
      return nil
    }
  }

  /// What was published last at a path of a file that was found.
  func former(at paths: [RelativePath]) -> FormerPublication? {
    let destination = destination()
    do throws(StorageError) {
      return try index?.former(at: paths) { destination.publishedName(for: $0) }
    } catch {
      world.fail(.owners, "the record of publications cannot be read: \(error.message)")
      return nil
    }
  }

  /// A request is about to go out.
  func begin(_ request: HTTPRequestID, _ step: DestinationStep, from paths: [RelativePath]) {
    let destination = destination()
    let publications = PublicationIndex.Sent.all(
      of: step, from: paths, keepsNonces: destination.abilities.comparesObjects
    ) { destination.publishedName(for: $0) }
    sent += publications
    index?.begins(request, publications)
    if world.bug != .forgetIntents { index?.recordBegun([request]) }
  }

  /// Nothing has been heard of a request that is to publish a capture under the name whose number this is: it is not known which of both
  /// the capture has, and a name that it may have is given to no other one. The choice is judged as of when it is made.
  private func withhold(_ name: String, from claimant: FileID) {
    guard let unnumbered = NumberedName.unnumbered(name) else { return }
    for sent in sent where sent.name == unnumbered {
      withheld.insert(Withheld(name: name, holder: sent.publication.fileID, claimant: claimant))
    }
  }

  /// The holder may have had the number when the claimant's right to it was asked for.
  func mayHaveHadNumber(_ name: String, _ holder: FileID, claimedBy claimant: FileID) -> Bool {
    withheld.contains(Withheld(name: name, holder: holder, claimant: claimant))
  }

  func ended(_ request: HTTPRequestID, _ outcome: StepOutcome) {
    index?.ended(request, outcome)
    heard(outcome)
  }

  private func heard(_ outcome: StepOutcome) {
    switch outcome {
    case .published(let receipt):
      let isOfIt = { (sent: PublicationIndex.Sent) in
        sent.name == receipt.name && sent.publication.fileID == receipt.fileID
      }
      unsaved += sent.filter(isOfIt)
      sent.removeAll(where: isOfIt)
    case .each(let outcomes): for outcome in outcomes { heard(outcome) }
    default: break
    }
  }

  /// The catalog is written.
  func save() {
    guard let index, let catalog else { return }
    do throws(StorageError) {
      try index.save(in: catalog)
      unsaved = []
    } catch {
      world.fail(.owners, "the record of publications cannot be written: \(error.message)")
    }
  }
}
