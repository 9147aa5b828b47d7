import FileModel
import Foundation
import Fuzzing
import GRDB
import Synchronization

@testable import UploadEngine

/// One database in memory for all runs, with the catalog's own tables.
private let database = Result {
  let database = try DatabaseQueue()
  try CatalogSchema.migrator.migrate(database)
  return database
}

private let columns = [
  "id", "path", "inode", "size", "modified_ns", "revision", "state", "failure_code", "failure_message", "completed_ms",
  "opened_ms", "closed_ms", "published", "receipt_id", "receipt_name", "receipt_size", "merkle_root", "chain_tip",
  "published_ms", "receipt_answer",
]

/// A value of any type, as a damaged database can hold one: a byte for its type, one for its length, the bytes.
private func value(_ bytes: inout ArraySlice<UInt8>) -> DatabaseValue {
  guard let kind = bytes.popFirst() else { return .null }
  let length = Int(bytes.popFirst() ?? 0) % 40
  let content = Array(bytes.prefix(length))
  bytes = bytes.dropFirst(length)
  let number = content.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
  switch kind % 6 {
  case 0: return Data(content).databaseValue
  case 1: return String(decoding: content, as: UTF8.self).databaseValue
  case 2: return number.databaseValue
  case 3: return Double(bitPattern: UInt64(bitPattern: number)).databaseValue
  case 4: return CatalogState.allCases[Int(kind / 6) % CatalogState.allCases.count].rawValue.databaseValue
  default: return .null
  }
}

private func row(_ entry: CatalogEntry) -> [UInt8] {
  func bytes(_ kind: UInt8, _ content: [UInt8]) -> [UInt8] { [kind, UInt8(content.count)] + content }
  func number(_ number: UInt64) -> [UInt8] { bytes(2, withUnsafeBytes(of: number.bigEndian) { Array($0) }) }
  func text(_ text: String) -> [UInt8] { bytes(1, Array(text.utf8)) }
  return bytes(0, Array(entry.id.blob)) + bytes(0, entry.path.bytes) + number(entry.inode) + number(entry.sizeBytes)
    + number(5) + number(entry.revision) + [10, 0] + text("failed") + text("why") + number(1) + number(2) + number(3)
    + bytes(0, Array("a\0b".utf8)) + text("r") + text("n") + number(4) + text("m") + text("c") + number(5) + text("{}")
}

let catalogParsers: [FuzzedParser] = [
  FuzzedParser("CatalogRows", bytesMax: 1024, words: ["complete", "pending", "evicted"]) {
    let entry = CatalogEntry(
      id: FileID(high: 1, low: 2), path: RelativePath("a/b"), inode: 7, sizeBytes: 9, modifiedNanoseconds: 5,
      revision: 3, state: .complete)
    return [row(entry), row(entry) + row(entry), Array(row(entry).dropFirst(20))]
  } test: { input in
    try database.get().inDatabase { database in
      try database.execute(sql: "DELETE FROM file")
      var rest = input.bytes[...]
      var rows = 0
      while !rest.isEmpty, rows < 4 {
        let values = columns.map { _ in value(&rest) } + [Int64(rows).databaseValue]
        let sql =
          "INSERT INTO file (\(columns.joined(separator: ", ")), changed) VALUES (\(values.map { _ in "?" }.joined(separator: ", ")))"
        // The tables refuse some; the rest has to be read.
        if (try? database.cachedStatement(sql: sql).execute(arguments: StatementArguments(values))) != nil { rows += 1 }
      }
      let page = try CatalogRows.page(from: .first, database)
      require(page.entries.count <= rows && page.next == nil, "no row is read twice")
      try require(CatalogRows.recordedFiles(database).files.count <= rows, "no row has two identities")
      require(
        page.entries.allSatisfy { $0.state != .complete || $0.receipt != nil }, "without proof nothing is complete")
      for entry in page.entries { try CatalogRows.upsert(entry, database) }
      let again = try CatalogRows.page(from: .first, database).entries
      for entry in page.entries { require(again.contains(entry), "an entry comes back") }
      for entry in page.entries { try CatalogRows.markChanged(entry.id, database) }
      let changed = try CatalogRows.page(from: .first, database).entries
      require(changed.allSatisfy { $0.receipt == nil && $0.state == .pending }, "a changed file is to be delivered")
    }
  }
]
