import FileModel
import Integrity

/// The bytes of a resume record on disk, all numbers little-endian. Since version 2 it is a log:
///
///     "UFSRESUM" ‖ version (3) ‖ length of the session id (2) ‖ session id ‖ file nonce (16) ‖ segment ‖ segment ‖ …
///     segment = length (4) ‖ sealed body
///
/// The first segment has the whole state, each further one the state without chunks and the chunks that changed. A body
/// is sealed with the header and the segment's number as associated data, under HKDF(master key, salt = session id). So a
/// segment is bound to its session, to this spool's key, to this file and to its place in it; none can be left out,
/// exchanged or brought back from an earlier file. What can be cut off is the end, which costs a question to the server.
///
/// Since version 3 the state says whose the session is. Version 1 had one body after the session id. Both are still read.
package enum ResumeRecordCoding {
  /// Why bytes are no record, for people.
  package struct Unreadable: Error {
    package var reason: String
  }

  /// What a record's file says.
  package struct Reading: Hashable {
    package var record: ResumeRecord
    /// Bytes at the end that are no whole segment; a crash in mid-write leaves some.
    package var unreadableBytes: Int
  }

  /// What the segments of one file have in common.
  package struct Envelope: Hashable, Sendable {
    /// The bytes before the first segment.
    package let header: [UInt8]
    fileprivate let key: [UInt8]
  }

  private static let magic = Array("UFSRESUM".utf8)
  private static let version: UInt16 = 3
  private static let fileNonceBytes = 16

  // MARK: - Writing

  package static func makeEnvelope(sessionID: String, masterKey: [UInt8]) throws(StorageError) -> Envelope {
    let session = Array(sessionID.utf8)
    var header = ByteWriter()
    header.append(magic)
    header.append(version)
    try header.appendCounted(session, as: UInt16.self)
    do throws(IntegrityError) {
      header.append(try SecureRandom.bytes(fileNonceBytes))
    } catch {
      throw StorageError(.invalid, "a resume record cannot be encrypted: \(error)")
    }
    return Envelope(header: header.bytes, key: key(masterKey, session: session, version: version))
  }

  /// A record's whole file.
  package static func encode(_ record: ResumeRecord, in envelope: Envelope) throws(StorageError) -> [UInt8] {
    let chunks = record.acknowledged.map {
      ResumeSnapshot.Change(index: $0.index, digest: $0.digest, token: $0.token)
    }
    return envelope.header + (try segment(0, of: record, chunks, in: envelope))
  }

  /// A segment to append to a file that has `number` segments.
  package static func segment(
    _ number: UInt64, of record: ResumeRecord, _ changes: [ResumeSnapshot.Change], in envelope: Envelope
  ) throws(StorageError) -> [UInt8] {
    let body = try ResumeBody.encode(record, changes)
    do throws(IntegrityError) {
      let sealed = try AES256GCM.seal(body, key: envelope.key, authenticating: context(envelope, number))
      var segment = ByteWriter(capacity: sealed.count + 4)
      do throws(StorageError) {
        try segment.appendCounted(sealed, as: UInt32.self)
      } catch {
        throw IntegrityError.library(error.message)
      }
      return segment.bytes
    } catch {
      throw StorageError(.invalid, "a resume record cannot be encrypted: \(error)")
    }
  }

  // MARK: - Reading

  package static func decode(_ bytes: [UInt8], masterKey: [UInt8]) throws(Unreadable) -> Reading {
    var reader = ByteReader(bytes)
    guard reader.take(magic.count).map({ Array($0) }) == magic else {
      throw Unreadable(reason: "it does not start like a resume record")
    }
    guard let found = reader.take(UInt16.self) else { throw Unreadable(reason: "it is too short") }
    guard (1...version).contains(found) else {
      throw Unreadable(reason: "it has version \(found) of the format, and this software knows 1 to \(version)")
    }
    guard let session = reader.takeCounted(as: UInt16.self),
      found == 1 || reader.take(fileNonceBytes) != nil
    else { throw Unreadable(reason: "it is too short") }
    guard let sessionID = String(validating: session, as: UTF8.self) else {
      throw Unreadable(reason: "its session has no name")
    }
    let envelope = Envelope(
      header: Array(bytes[..<reader.position]), key: key(masterKey, session: session, version: found))
    if found == 1 { return try decodeVersion1(Array(bytes[reader.position...]), envelope, sessionID) }
    return try decodeSegments(&reader, envelope, sessionID, namesOwner: found >= 3)
  }

  private static func decodeSegments(
    _ reader: inout ByteReader, _ envelope: Envelope, _ sessionID: String, namesOwner: Bool
  ) throws(Unreadable) -> Reading {
    let first = try open(&reader, number: 0, envelope)
    guard var body = ResumeBody(first, sessionID: sessionID, namesOwner: namesOwner) else {
      throw Unreadable(reason: "its content does not fit together")
    }
    var chunks = ResumeBody.applying(body.changes, to: [:])
    var number: UInt64 = 1
    var end = reader.position
    while let plain = segment(&reader, number: number, envelope),
      let next = ResumeBody(plain, sessionID: sessionID, namesOwner: namesOwner),
      next.record.fileID == body.record.fileID
    {
      chunks = ResumeBody.applying(next.changes, to: chunks)
      body = next
      number += 1
      end = reader.position
    }
    var record = body.record
    record.acknowledged = chunks.values.sorted { $0.index < $1.index }
    return Reading(record: record, unreadableBytes: reader.count - end)
  }

  /// Nil at the first segment that cannot be opened, which ends the record: what was written before it holds.
  private static func segment(_ reader: inout ByteReader, number: UInt64, _ envelope: Envelope) -> [UInt8]? {
    do throws(Unreadable) {
      return try open(&reader, number: number, envelope)
    } catch {
      return nil
    }
  }

  private static func open(_ reader: inout ByteReader, number: UInt64, _ envelope: Envelope) throws(Unreadable)
    -> [UInt8]
  {
    guard let sealed = reader.takeCounted(as: UInt32.self) else { throw Unreadable(reason: "it is too short") }
    do {
      return try AES256GCM.open(sealed, key: envelope.key, authenticating: context(envelope, number))
    } catch {
      throw Unreadable(reason: "it was damaged, or encrypted with another key")
    }
  }

  private static func decodeVersion1(
    _ sealed: [UInt8], _ envelope: Envelope, _ sessionID: String
  ) throws(Unreadable) -> Reading {
    let plain: [UInt8]
    do {
      plain = try AES256GCM.open(sealed, key: envelope.key, authenticating: envelope.header)
    } catch {
      throw Unreadable(reason: "it was damaged, or encrypted with another key")
    }
    guard let record = ResumeBody.recordOfVersion1(plain, sessionID: sessionID) else {
      throw Unreadable(reason: "its content does not fit together")
    }
    return Reading(record: record, unreadableBytes: 0)
  }

  private static func context(_ envelope: Envelope, _ number: UInt64) -> [UInt8] {
    var context = ByteWriter(capacity: envelope.header.count + 8)
    context.append(envelope.header)
    context.append(number)
    return context.bytes
  }

  private static func key(_ masterKey: [UInt8], session: [UInt8], version: UInt16) -> [UInt8] {
    HKDFSHA256.derive(
      inputKey: masterKey, salt: session, info: Array("uploadfs resume record v\(version)".utf8), byteCount: 32)
  }
}
