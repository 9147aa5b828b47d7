package import FileModel
import Foundation
import GRDB
import TransferModel

/// A request is about to publish this under a name.
struct PublicationIntent: Hashable, Sendable {
  var name: String
  var publication: EarlierPublication
  /// The catalog knows nothing of the name: it need not be asked.
  var isOfNewName = false
}

/// What became of requests that were to publish, for the catalog.
struct PublicationNotes: Sendable {
  /// What was published.
  struct Published: Sendable {
    var name: String
    var publication: EarlierPublication
    /// The request's intent, and with it the earlier ones of the name, need not be kept; nil where the request is not known.
    var intent: RecordedIntent?
    /// What the server calls it, and when it says that it was, milliseconds since 1970; nil where that is not known.
    var receiptID: String?
    var atMilliseconds: Int64?
  }

  var published: [Published] = []
  /// What servers said of sessions of before.
  var asked: [PublicationIntent] = []
  /// Intents of requests that have published nothing.
  var ended: [Int64] = []

  var isEmpty: Bool { published.isEmpty && asked.isEmpty && ended.isEmpty }
}

/// What is known of the publications under a name.
struct RecordedPublications: Sendable {
  /// What this spool published last.
  var last: EarlierPublication?
  /// What may have been published as well, the oldest first.
  var intents: [(number: Int64, publication: EarlierPublication)] = []

  /// What is known once servers have said what sessions of before had published. Of what it was not known of what had become of it, the
  /// one that was sent last is the last publication, whichever was asked for first; otherwise another one may have replaced it.
  func last(afterAsking asked: [EarlierPublication]) -> (publication: EarlierPublication, intent: Int64?)? {
    let sent = asked.compactMap { asked in
      intents.last { asked.isSameContent(as: $0.publication) }.map { (asked: asked, intent: $0) }
    }
    guard let latest = sent.max(by: { $0.intent.number < $1.intent.number }) else {
      return (last ?? asked.last).map { ($0, nil) }
    }
    var known = latest.asked
    let intent = latest.intent.publication
    (known.nonce, known.chunkBytes, known.origin) = (intent.nonce, intent.chunkBytes, intent.origin)
    return (known, latest.intent.number)
  }
}

struct RecordedIntent: Hashable, Sendable {
  var number: Int64
  /// The name had no others then: earlier ones of it need not be looked for.
  var isOnly: Bool
  /// No earlier request was to publish the same, so that it can be forgotten if this one does not.
  var isFirst: Bool
}

extension CatalogRows {
  /// The most intents of one name: a request names no more.
  static let intentsOfNameMax = 8
  /// The most intents altogether: some 20 MB. Older ones cost a number each.
  static let intentsMax: Int64 = 100_000

  private static let selectPublication = """
    SELECT file, merkle_root, size, chunk, nonce, path, called, modified_ns, published_as, receipt
    FROM publication WHERE name = ?
    """
  private static let upsertPublication = """
    INSERT OR REPLACE INTO publication (name, file, merkle_root, size, chunk, nonce, path, called, modified_ns,
    published_as, receipt, published_ms, receipt_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """
  private static let selectIntents = """
    SELECT file, merkle_root, size, chunk, nonce, path, called, modified_ns, number FROM intent
    WHERE name = ? ORDER BY number
    """
  private static let insertIntent = """
    INSERT INTO intent (name, file, merkle_root, size, chunk, nonce, path, called, modified_ns, number)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """
  private static let selectLastIntent = "SELECT MAX(number) FROM intent"
  private static let deleteIntent = "DELETE FROM intent WHERE number = ?"
  private static let deleteIntentsUpTo = "DELETE FROM intent WHERE name = ? AND number <= ?"
  private static let deleteIntentsBetween = "DELETE FROM intent WHERE number BETWEEN ? AND ?"
  private static let deleteIntentsOf = """
    DELETE FROM intent WHERE name = ? AND file = ? AND merkle_root = ? AND size = ?
    """
  private static let deleteOldIntents = "DELETE FROM intent WHERE number <= ?"
  private static let selectNames = "SELECT name FROM publication UNION ALL SELECT name FROM intent LIMIT ?"

  static let publicationStatements = [
    selectPublication, upsertPublication, selectIntents, insertIntent, selectLastIntent, deleteIntent,
    deleteIntentsUpTo, deleteIntentsBetween, deleteIntentsOf, deleteOldIntents, selectNames, selectGivenNames,
    selectNamesMark, setPath, selectByName, selectByPath,
  ]

  /// The names of which anything is known, some more than once; nil where there are more than so many.
  static func publishedNames(countMax: Int, _ database: Database) throws -> [[UInt8]]? {
    let names = try Row.fetchAll(database.cachedStatement(sql: selectNames), arguments: [countMax + 1]).map { row in
      // A name that is none is not found by its name either.
      Columns(row).text(0).map { Array($0.utf8) } ?? []
    }
    return names.count > countMax ? nil : names
  }

  /// A row that cannot be understood counts as not there: the next capture of that name gets a number.
  static func publications(named name: String, _ database: Database) throws -> RecordedPublications {
    let row = try Row.fetchOne(database.cachedStatement(sql: selectPublication), arguments: [name])
    let last = row.flatMap { row in
      let columns = Columns(row)
      return publication(columns, publishedAs: columns.text(8), receiptID: columns.text(9))
    }
    let intents = try intents(of: name, database).compactMap { intent in
      intent.publication.map { (intent.number, $0) }
    }
    return RecordedPublications(last: last, intents: intents)
  }

  private static func publication(
    _ columns: Columns, publishedAs: String? = nil, receiptID: String? = nil
  ) -> EarlierPublication? {
    guard let file = columns.fileID(0), let merkleRoot = columns.text(1), let size = columns.integer(2) else {
      return nil
    }
    return EarlierPublication(
      fileID: file, merkleRoot: merkleRoot, sizeBytes: UInt64(bitPattern: size),
      chunkBytes: columns.integer(3).map { Int(clamping: $0) }, publishedAs: publishedAs,
      nonce: columns.data(4).map { [UInt8]($0) }, receiptID: receiptID, origin: origin(columns, from: 5))
  }

  private static func origin(_ columns: Columns, from first: Int) -> PublicationOrigin? {
    guard let path = columns.path(first) else { return nil }
    let called = columns.data(first + 1)
    let name = called.map { $0.isEmpty ? nil : RelativePath(bytes: Array($0)) } ?? path
    return PublicationOrigin(path: path, name: name, modifiedNanoseconds: columns.integer(first + 2) ?? .min)
  }

  /// What both tables say of a publication, in their columns' order.
  private static func values(_ name: String, _ publication: EarlierPublication) -> [(any DatabaseValueConvertible)?] {
    let origin = publication.origin
    let called = origin.flatMap { $0.name == $0.path ? nil : Data($0.name?.bytes ?? []) }
    return [
      name, publication.fileID.blob, publication.merkleRoot, Int64(bitPattern: publication.sizeBytes),
      publication.chunkBytes, publication.nonce.map { Data($0) }, origin.map { Data($0.path.bytes) },
      called, origin?.modifiedNanoseconds,
    ]
  }

  private static func intents(
    of name: String, _ database: Database
  ) throws -> [(number: Int64, publication: EarlierPublication?)] {
    try Row.fetchAll(database.cachedStatement(sql: selectIntents), arguments: [name]).compactMap { row in
      let columns = Columns(row)
      return columns.integer(8).map { ($0, publication(columns)) }
    }
  }

  /// Notes what became of requests.
  static func note(_ notes: PublicationNotes, _ database: Database) throws {
    for asked in notes.asked {
      let known = try publications(named: asked.name, database)
      guard let last = known.last(afterAsking: [asked.publication]), last.publication != known.last else { continue }
      // With it those that were sent before: one of them that is asked for later was replaced by it.
      let intent = last.intent.map { RecordedIntent(number: $0, isOnly: false, isFirst: false) }
      try note(.init(name: asked.name, publication: last.publication, intent: intent), database)
    }
    for published in notes.published { try note(published, database) }
    let only = notes.published.compactMap(\.intent).filter(\.isOnly).map(\.number)
    for range in ranges(of: only + notes.ended) {
      try database.cachedStatement(sql: deleteIntentsBetween)
        .execute(arguments: [range.lowerBound, range.upperBound])
    }
  }

  /// Numbers that follow each other, together: those of a request with many files do.
  private static func ranges(of numbers: [Int64]) -> [ClosedRange<Int64>] {
    var ranges: [ClosedRange<Int64>] = []
    for number in numbers.sorted() {
      if let last = ranges.last, number <= last.upperBound + 1 {
        ranges[ranges.count - 1] = last.lowerBound...number
      } else {
        ranges.append(number...number)
      }
    }
    return ranges
  }

  private static func note(_ published: PublicationNotes.Published, _ database: Database) throws {
    let (name, publication) = (published.name, published.publication)
    let (file, size) = (publication.fileID.blob, Int64(bitPattern: publication.sizeBytes))
    try database.cachedStatement(sql: upsertPublication).execute(
      arguments: StatementArguments(
        values(name, publication) + [
          publication.publishedAs, publication.receiptID, published.atMilliseconds,
          publication.receiptID == nil ? published.receiptID : nil,
        ]))
    if let intent = published.intent {
      guard !intent.isOnly else { return }
      try database.cachedStatement(sql: deleteIntentsUpTo).execute(arguments: [name, intent.number])
    } else {
      try database.cachedStatement(sql: deleteIntentsOf)
        .execute(arguments: [name, file, publication.merkleRoot, size])
    }
  }

  /// Notes what is about to be published, under numbers beyond `last`. Of intents that are the same one is kept, as the latest.
  static func begin(
    _ intents: [PublicationIntent], after last: Int64, _ database: Database
  ) throws -> [RecordedIntent] {
    let newest = try Int64.fetchOne(database.cachedStatement(sql: selectLastIntent)) ?? 0
    var number = max(last, newest)
    var recorded: [RecordedIntent] = []
    for intent in intents {
      number += 1
      let (isOnly, isFirst) = intent.isOfNewName ? (true, true) : try makeRoom(for: intent, database)
      recorded.append(RecordedIntent(number: number, isOnly: isOnly, isFirst: isFirst))
      try database.cachedStatement(sql: insertIntent)
        .execute(arguments: StatementArguments(values(intent.name, intent.publication) + [number]))
    }
    if number > intentsMax {
      try database.cachedStatement(sql: deleteOldIntents).execute(arguments: [number - intentsMax])
    }
    return recorded
  }

  /// Removes those that are the same, and of a name that has many the oldest. Whether there was none, and none that was the same.
  private static func makeRoom(
    for intent: PublicationIntent, _ database: Database
  ) throws -> (isOnly: Bool, isFirst: Bool) {
    let known = try intents(of: intent.name, database)
    let isSame = { (publication: EarlierPublication?) in publication?.isSame(as: intent.publication) ?? false }
    let others = known.filter { !isSame($0.publication) }
    for row in known.filter({ isSame($0.publication) }) + others.dropLast(intentsOfNameMax - 1) {
      try database.cachedStatement(sql: deleteIntent).execute(arguments: [row.number])
    }
    return (known.isEmpty, others.count == known.count)
  }
}

/// A name under which something was published, or may have been.
struct GivenName: Sendable {
  /// What the destination calls it.
  var published: String
  var file: FileID
  /// The path for which it was given, and what the capture is called there; nil where that is not known.
  var origin: PublicationOrigin?
  /// The paths of the file under which it was published, if it lies in the spool; else nil.
  var publishedPaths: [RelativePath]?
  /// The name in the receipt of what the file was last delivered as; nil where there is none.
  var receiptName: String?

  /// Another catalog knows what lies in the spool.
  mutating func take(_ capture: PresentCapture?) {
    publishedPaths = capture?.publishedPaths
    receiptName = capture?.receiptName
  }

  /// It was asked for, and is not what the file was delivered as.
  var isOnlyAsked: Bool { receiptName.map { !$0.utf8.elementsEqual(published.utf8) } ?? false }

  /// The file was delivered as its path, which is its name there.
  var isDeliveredAsItsPath: Bool { receiptName.map { origin?.path.bytes.elementsEqual($0.utf8) == true } ?? false }
}

/// A capture that lies in the spool, and was published.
package struct PresentCapture: Sendable {
  /// The paths under which it was.
  package var publishedPaths: [RelativePath]
  /// The name in its receipt; nil where there is none.
  package var receiptName: String?

  /// One that has these.
  package init(publishedPaths: [RelativePath], receiptName: String?) {
    self.publishedPaths = publishedPaths
    self.receiptName = receiptName
  }
}

extension CatalogRows {
  private static let givenNamesPageMax = 2048
  static let selectGivenNames = """
    SELECT name, file, path, called, modified_ns, EXISTS (
      SELECT 1 FROM file WHERE file.id = given.file AND state NOT IN ('evicted', 'removed')
    ) AS present, (SELECT published FROM file WHERE file.id = given.file),
    (SELECT receipt_name FROM file WHERE file.id = given.file) FROM (
      SELECT name, file, path, called, modified_ns FROM publication
      UNION ALL SELECT name, file, path, called, modified_ns FROM intent
    ) AS given WHERE name > ? ORDER BY name, present DESC LIMIT ?
    """
  private static let publicationColumns = """
    file, merkle_root, size, chunk, nonce, path, called, modified_ns, published_as, receipt, published_ms, name,
    receipt_id
    """
  static let selectByName = """
    SELECT \(publicationColumns) FROM publication WHERE name = ?1 AND (path = ?2 AND called IS NULL OR path IS NULL AND ?3)
    """
  static let selectByPath = """
    SELECT \(publicationColumns) FROM publication WHERE path = ? AND called IS NOT NULL
    ORDER BY modified_ns DESC LIMIT 1
    """
  private static let selectTimeOfDelivery = """
    SELECT modified_ns FROM file WHERE id = ?1 AND COALESCE(receipt_file, id) = ?1 AND receipt_name = ?2 AND merkle_root = ?3
    AND state IN ('complete', 'evicted') AND modified_ns > ?4
    """
  static let selectNamesMark = "SELECT value FROM names_mark"
  static let setPath = """
    UPDATE publication SET path = ?1, called = ?2 WHERE name = ?3 AND (path IS NULL OR path = ?1 AND called = x'')
    """

  /// Names in their order, from the one after another on; and where the next page begins, nil after the last.
  static func givenNames(
    after name: String, _ database: Database
  ) throws -> (names: [GivenName], next: String?) {
    var rows = try Row.fetchAll(
      database.cachedStatement(sql: selectGivenNames), arguments: [name, givenNamesPageMax])
    let isFull = rows.count == givenNamesPageMax
    // The rows of one name stay together: the last one's may go on behind the page.
    if isFull, let cut = rows.last.flatMap({ Columns($0).text(0) }) {
      let whole = rows.filter { Columns($0).text(0) != cut }
      if !whole.isEmpty { rows = whole }
    }
    let names = rows.compactMap { row -> GivenName? in
      let columns = Columns(row)
      guard let name = columns.text(0), let file = columns.fileID(1) else { return nil }
      return GivenName(
        published: name, file: file, origin: origin(columns, from: 2),
        publishedPaths: columns.integer(5) == 1 ? columns.paths(6) : nil, receiptName: columns.text(7))
    }
    let last = rows.last.flatMap { Columns($0).text(0) }
    return (names, isFull ? last : nil)
  }

  /// What was published last at a path: under the name that this has by itself, where that is wanted, or under one that a template gave. Where
  /// it is not recorded from where something was published, and no template has ever given names, its name says it.
  static func former(
    at path: RelativePath, named name: String?, areNamesPaths: Bool, _ database: Database
  ) throws -> FormerPublication? {
    let bytes = Data(path.bytes)
    let rows = [
      try name.flatMap {
        try Row.fetchOne(database.cachedStatement(sql: selectByName), arguments: [$0, bytes, areNamesPaths])
      },
      try Row.fetchOne(database.cachedStatement(sql: selectByPath), arguments: [bytes]),
    ]
    return try rows.compactMap { try $0.flatMap { try former(Columns($0), at: path, database) } }
      .max { $0.origin.modifiedNanoseconds < $1.origin.modifiedNanoseconds }
  }

  private static func former(
    _ columns: Columns, at path: RelativePath, _ database: Database
  ) throws -> FormerPublication? {
    let receiptID = columns.text(9) ?? columns.text(12)
    guard let publication = publication(columns, publishedAs: columns.text(8), receiptID: receiptID),
      let name = columns.text(11)
    else { return nil }
    var origin = publication.origin ?? PublicationOrigin(path: path, name: path, modifiedNanoseconds: .min)
    // Where the time is not known, nothing is known to be newer.
    if columns.integer(7) == nil {
      origin.modifiedNanoseconds = try timeOfDelivery(publication, named: name, database) ?? .max
    }
    let others = try intents(of: name, database).compactMap(\.publication)
      .filter { !$0.isSameContent(as: publication) }
    let times = others.compactMap(\.origin).filter { $0.path == origin.path }.map(\.modifiedNanoseconds)
    origin.modifiedNanoseconds = max(origin.modifiedNanoseconds, times.max() ?? .min)
    return FormerPublication(
      publication: publication, origin: origin, name: name, publishedAtMilliseconds: columns.integer(10) ?? 0,
      isLast: others.isEmpty)
  }

  /// Of what a server alone has told of the row of its capture says it, as long as that is known as delivered with this content.
  private static func timeOfDelivery(
    _ publication: EarlierPublication, named name: String, _ database: Database
  ) throws -> Int64? {
    // Of what a copy of the catalog says it is not known.
    try Row.fetchOne(
      database.cachedStatement(sql: selectTimeOfDelivery),
      arguments: [publication.fileID.blob, name, publication.merkleRoot, Int64.min]
    ).flatMap { Columns($0).integer(0) }
  }

  /// The start of the names' record that knew all names here.
  static func namesMark(_ database: Database) throws -> Data? {
    try Row.fetchOne(database.cachedStatement(sql: selectNamesMark)).flatMap { Columns($0).data(0) }
  }

  static func setNamesMark(_ mark: Data, _ database: Database) throws {
    try database.execute(sql: "DELETE FROM names_mark")
    try database.execute(sql: "INSERT INTO names_mark (value) VALUES (?)", arguments: [mark])
  }

  /// For which paths names were given, where versions before did not record it.
  static func setPaths(_ paths: [(name: String, path: RelativePath)], _ database: Database) throws {
    for (name, path) in paths {
      let bytes = Data(path.bytes)
      try database.cachedStatement(sql: setPath)
        .execute(arguments: [bytes, Data(name.utf8) == bytes ? nil : Data(name.utf8), name])
    }
  }
}

extension EarlierPublication {
  /// The same bytes of the same capture.
  func isSameContent(as other: EarlierPublication) -> Bool {
    fileID == other.fileID && merkleRoot == other.merkleRoot && sizeBytes == other.sizeBytes
  }

  /// The same bytes of the same capture, sent the same way where the object tells that.
  func isSame(as other: EarlierPublication) -> Bool {
    isSameContent(as: other) && nonce == other.nonce
  }
}
