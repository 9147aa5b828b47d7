import FileModel
import Lookup
import TransferModel
import UploadEngine

/// What a client has published, or may have, and under which names: the real record of it, which outlives the process.
/// What is about to be published is written at once; what was published with the catalog, as the disk allows.
final class SimulatedPublications {
  private unowned let world: World
  /// In memory: a power cut loses nothing of it.
  private(set) var catalog: Catalog?
  /// The index of this start; nil where the destination cannot name a file's owner.
  private var index: PublicationIndex?
  private let destination: () -> any Destination

  private let replaces: Bool
  /// Requests without an answer, or that were refused.
  private var sent: [PublicationIndex.Sent] = []
  /// Answered ones that the record does not have yet: a start after a kill does not know the answers.
  private var unsaved: [PublicationIndex.Sent] = []
  /// Numbers that captures may have had when the right to them was checked.
  private var withheld: LookupSet<Withheld> = []

  private struct Withheld: Hashable {
    var name: String
    var holder: FileID
    var claimant: FileID
  }

  /// Where the destination lies, its state is not known.
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

  /// The spool's state is lost: from now on earlier publications are another machine's.
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

  /// The latest publication at a path of a file that was found.
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

  /// A request that is to publish a capture under the name with this number is unanswered: it is not known which of
  /// both the capture has. A name that it may have is given to no other one. The choice is judged as of when it is
  /// made.
  private func withhold(_ name: String, from claimant: FileID) {
    guard let unnumbered = NumberedName.unnumbered(name) else { return }
    for sent in sent where sent.name == unnumbered {
      withheld.insert(Withheld(name: name, holder: sent.publication.fileID, claimant: claimant))
    }
  }

  /// The holder may have had the number when the claimant's right to it was checked.
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
