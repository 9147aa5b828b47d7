import FileModel
import Integrity
import Lookup
import TransferModel
import UploadEngine

/// The bytes of one file that a request carries.
struct CarriedBytes {
  /// What a whole file is published as.
  struct Publication {
    var path: RelativePath
    var digest: Digest32
  }

  var file: FileID
  var range: Range<Int>
  /// The size of the file.
  var fileBytes: Int
  /// Nil for a chunk.
  var publication: Publication?
}

/// Counts the bytes of each file that are sent although none is newly acknowledged, however they are cut into pieces.
struct ByteCosts {
  /// What was sent of one content since a byte of it was first acknowledged.
  private struct Account {
    var since: Int64
    var sentBytes = 0
    var fileBytes = 0
  }

  /// A name of a file.
  private struct Place: Hashable {
    var file: FileID
    var path: RelativePath
  }

  // While nothing is acknowledged each pause of a file is longer by half than the one before it, from 0.5 s up to half
  // of the longest. With one immediate attempt that is 8 of the whole file in 16 s. The others are for runs whose
  // chunks are sent again alone, and for another address.
  private static let triesMax = 10
  private static let pauseMin = UploadConstants.retryMaxDelay.nanoseconds / 2
  // The tenth refusal of this file alone ends it; one more may be of a request that had been given up.
  private static let refusalsMax = UploadConstants.fileTriesMax + 1

  private unowned let world: World
  private var accounts: LookupTable<FileID, Account> = [:]
  /// The acknowledged bytes of each file's present content, whatever the server has answered since.
  private var acknowledged: LookupTable<FileID, [Bool]> = [:]
  /// How often the present content was refused as a whole because of its content.
  private var refusals: LookupTable<FileID, Int> = [:]
  /// The content that was published last under each name of a file.
  private var published: LookupTable<Place, Digest32> = [:]
  /// For each member of a request the bytes that it carries, if any.
  private var underWay: LookupTable<HTTPRequestID, [CarriedBytes?]> = [:]

  init(_ world: World) { self.world = world }

  mutating func forget() {
    accounts = [:]
    acknowledged = [:]
    refusals = [:]
    published = [:]
    underWay = [:]
  }

  /// The file has other bytes or names, or a user has asked for it.
  mutating func beginsAnew(_ file: FileID) {
    accounts[file] = nil
    acknowledged[file] = nil
    refusals[file] = nil
  }

  mutating func sent(_ request: HTTPRequestID, _ members: [CarriedBytes?]) {
    underWay[request] = members
    for case let member? in members where !member.range.isEmpty {
      count(member)
      if member.publication != nil, let count = refusals[member.file], count >= Self.refusalsMax {
        world.fail(.cost, "\(member.file) goes out although \(count) answers have ended it")
      }
    }
  }

  private mutating func count(_ member: CarriedBytes) {
    let now = world.time.nanoseconds
    var account = accounts[member.file] ?? Account(since: now)
    account.sentBytes += member.range.count
    account.fileBytes = max(account.fileBytes, member.fileBytes, member.range.upperBound)
    accounts[member.file] = account
    let time = now - account.since
    let size = Int64(account.fileBytes)
    if Int64(account.sentBytes) > size * Int64(Self.triesMax) + size * time / Self.pauseMin {
      let what = "\(account.sentBytes) bytes of \(member.file), which has \(size)"
      world.fail(.cost, "\(what), go out within \(time / 1_000_000_000) s without one that is acknowledged anew")
    }
  }

  mutating func ended(_ request: HTTPRequestID, _ outcome: StepOutcome) {
    let members = underWay.removeValue(forKey: request) ?? []
    for (position, member) in members.enumerated() {
      guard let member else { continue }
      switch outcome.ofMember(position, of: members.count) {
      case .chunkStored, .chunkStoredAs: acknowledge(member)
      case .published:
        acknowledge(member)
        if let publication = member.publication {
          published(member.file, at: publication.path, as: publication.digest)
        }
      case .refused(let failure): refused(member, by: failure.kind, isAlone: members.count == 1)
      default: break
      }
    }
  }

  /// Publishing the same content under the same name once more counts as no progress.
  mutating func published(_ file: FileID, at path: RelativePath, as digest: Digest32) {
    let place = Place(file: file, path: path)
    guard published[place] != digest else { return }
    published[place] = digest
    accounts[file] = nil
    refusals[file] = nil
  }

  private mutating func acknowledge(_ member: CarriedBytes) {
    var known = acknowledged.removeValue(forKey: member.file) ?? []
    defer { acknowledged[member.file] = known }
    if known.count < member.range.upperBound {
      known.append(contentsOf: repeatElement(false, count: member.range.upperBound - known.count))
    }
    guard known[member.range].contains(false) else { return }
    for place in member.range { known[place] = true }
    accounts[member.file] = nil
  }

  private mutating func refused(_ member: CarriedBytes, by kind: StepFailure.Kind, isAlone: Bool) {
    switch kind {
    case .transport(.connectFailed), .transport(.unknownHost):
      // No server was available to take the bytes.
      accounts[member.file]?.sentBytes -= member.range.count
    case .sessionGone, .nameTaken, .conflict, .unexpectedAnswer:
      // A refusal of several files at once says nothing of any of them.
      if isAlone, member.publication != nil { refusals[member.file, default: 0] += 1 }
    default: break
    }
  }
}
