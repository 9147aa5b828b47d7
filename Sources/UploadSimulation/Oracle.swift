import ChunkProtocol
import FileModel
import Integrity
import Lookup
import OrderedCollections
import UploadEngine

/// Knows what may be published: for each name every content that a file had under it while no program was writing. And
/// what was published, and with which receipt.
final class Oracle {
  var report: (_ invariant: Invariant, _ detail: TraceLine) -> Void = { _, _ in }
  private var legitimate: LookupTable<String, LookupSet<[UInt8]>> = [:]
  /// Temporary names under which a user wanted the content.
  private var wanted: LookupSet<String> = []
  private var receipts: LookupTable<String, [UInt8]> = [:]
  /// What power cuts and copies have left of captures.
  private var remains: LookupSet<[UInt8]> = []
  /// Contents that were restored by hand over a later delivery, and that no user wants as they are.
  private var older: LookupTable<String, LookupSet<[UInt8]>> = [:]
  /// Names under which parts of two captures are wanted.
  private var mixed: LookupSet<String> = []
  /// What exists only at the receiver now, by its former path.
  private(set) var evicted: OrderedDictionary<String, Evicted> = [:]
  /// The published names of captures; nil where these are their paths.
  var names: NameChecks?
  /// Whether a rule sends files of this name here.
  var isFor: (RelativePath) -> Bool = { _ in true }
  /// The content that is shown under a name.
  var look: (String) -> [UInt8]? = { _ in nil }
  private(set) var settledCount = 0
  private(set) var deliveries: LookupTable<RelativePath, Int64> = [:]
  private(set) var publicationCount = 0

  /// A content whose local copy is gone.
  struct Evicted {
    var published: String
    var bytes: [UInt8]
  }

  /// A file had this content under one of these names while it had no writer.
  func knows(_ bytes: [UInt8], names: [RelativePath]) -> Bool {
    names.contains { legitimate[PublishedName.encode($0.bytes)]?.contains(bytes) == true }
  }

  /// No program is writing this file now.
  func settled(_ bytes: [UInt8], names: [RelativePath]) {
    settledCount += 1
    for name in names { legitimate[PublishedName.encode(name.bytes), default: []].insert(bytes) }
  }

  /// A power cut may have left something else of this content, or a copy does not prove it: it is published under these
  /// names if all of it is found again.
  func mayBeFoundAgain(_ bytes: [UInt8], names: [RelativePath]) {
    for name in names { legitimate[PublishedName.encode(name.bytes), default: []].insert(bytes) }
  }

  /// A user wants the content published as it is, under any name.
  func wanted(_ bytes: [UInt8], names: [RelativePath]) {
    settled(bytes, names: names)
    isLater(bytes, names: names)
    for name in names { wanted.insert(PublishedName.encode(name.bytes)) }
  }

  /// These bytes are not to be published under these names, under which later ones are.
  func isOlder(_ bytes: [UInt8], names: [RelativePath]) {
    // Any capture may be empty.
    guard !bytes.isEmpty else { return }
    for name in names { older[PublishedName.encode(name.bytes), default: []].insert(bytes) }
  }

  /// A writer has written these bytes anew.
  func isLater(_ bytes: [UInt8], names: [RelativePath]) {
    for name in names { older[PublishedName.encode(name.bytes)]?.remove(bytes) }
  }

  /// The next start decides anew.
  func forgetOlder() { older = [:] }

  /// What is published under any of these names may be parts of two captures, and is wanted all the same.
  func mixed(_ names: [RelativePath]) { for name in names { mixed.insert(PublishedName.encode(name.bytes)) } }

  /// These bytes are what is left of a capture.
  func remain(_ bytes: [UInt8]) { remains.insert(bytes) }

  /// Nothing is to be published under any of these names.
  func areHeldBack(_ names: [RelativePath]) -> Bool {
    names.allSatisfy { name in
      TemporaryNameRule.standard.matches(name.lastComponent) && !wanted.contains(PublishedName.encode(name.bytes))
    }
  }

  /// The receiver shows these bytes under this name.
  func shown(_ bytes: [UInt8], name: String) {
    let paths = (names?.paths(of: name) ?? [name]).filter {
      !TemporaryNameRule.standard.matches(RelativePath($0).lastComponent) || wanted.contains($0)
    }
    if let stray = paths.first(where: { !isFor(RelativePath($0)) }) {
      report(.destinations, "\(stray) was published where it does not go")
    }
    if paths.isEmpty {
      report(.publication, "\(name) is temporary and was published")
    } else if !paths.contains(where: { legitimate[$0]?.contains(bytes) == true || mixed.contains($0) }) {
      if remains.contains(bytes) { report(.remains, "\(name) was published with what is left of it here") }
      report(
        .publication, "\(name) was published with \(bytes.count) bytes that it never had while it had no writer")
    }
  }

  /// The receiver has published this.
  func published(_ bytes: [UInt8], name: String, receipt: String) {
    publicationCount += 1
    receipts[receipt] = bytes
    if older[name]?.contains(bytes) == true {
      report(.older, "\(name) was published with an older content, which was put back by hand")
    }
    shown(bytes, name: name)
  }

  /// The local copy is about to be removed.
  func evicted(_ bytes: [UInt8], names: [RelativePath], called published: (RelativePath) -> String) {
    for name in names where !TemporaryNameRule.standard.matches(name.lastComponent) && isFor(name) {
      let published = published(name)
      if look(published) != bytes { report(.eviction, "\(published) is removed and lies nowhere else") }
      evicted[PublishedName.encode(name.bytes)] = Evicted(published: published, bytes: bytes)
    }
  }

  /// A file has this name now: its earlier content is no longer expected.
  func taken(_ name: RelativePath) { evicted[PublishedName.encode(name.bytes)] = nil }

  /// The client reports the name complete.
  func delivered(_ name: RelativePath, at time: Int64) { deliveries[name] = time }

  /// These bytes were published.
  func haveReceipt(_ bytes: [UInt8]) -> Bool { receipts.containsValue { $0 == bytes } }

  /// The bytes that a receipt was given for.
  func bytes(ofReceipt id: String) -> [UInt8]? { receipts[id] }
}
