public import Integrity

/// A header field that is missing or unreadable.
public struct HeaderViolation: Error, Hashable, Sendable {
  /// The field's name.
  public var field: String
  /// What is wrong with it, for people.
  public var reason: String

  /// Names a field and what is wrong with it.
  public init(field: String, reason: String) {
    self.field = field
    self.reason = reason
  }
}

/// What the header fields of a chunk request say; a whole-file request carries them, too.
public struct ChunkHeaders: Hashable, Sendable {
  /// Of the plain bytes.
  public var sha256: Digest32
  /// Of the plain bytes.
  public var crc32c: UInt32
  /// The number of the plain bytes.
  public var sizeBytes: UInt64
  /// How the body is coded.
  public var encoding: ChunkEncoding
  /// The MAC, 32 bytes.
  public var mac: [UInt8]
  /// SHA-256 of the body as sent, when the field is there.
  public var contentSHA256: Digest32?

  /// Collects what the fields say.
  public init(
    sha256: Digest32, crc32c: UInt32, sizeBytes: UInt64, encoding: ChunkEncoding, mac: [UInt8],
    contentSHA256: Digest32?
  ) {
    self.sha256 = sha256
    self.crc32c = crc32c
    self.sizeBytes = sizeBytes
    self.encoding = encoding
    self.mac = mac
    self.contentSHA256 = contentSHA256
  }

  /// Reads the fields; `value` looks one up by its name, without regard to case.
  public init(reading value: (String) -> String?) throws(HeaderViolation) {
    sha256 = try HeaderReading.digest(HeaderName.chunkSHA256, value)
    crc32c = try HeaderReading.checksum(HeaderName.chunkCRC32C, value)
    sizeBytes = try HeaderReading.number(HeaderName.chunkSize, value)
    encoding = try HeaderReading.encoding(value)
    mac = try HeaderReading.digest(HeaderName.chunkHMAC, value).bytes
    contentSHA256 = try HeaderReading.contentDigest(value)
  }

  /// The fields, to be sent.
  public var fields: [(name: String, value: String)] {
    var fields = [
      (HeaderName.chunkSHA256, Hex.encode(sha256)),
      (HeaderName.chunkCRC32C, Hex.encode(crc32c)),
      (HeaderName.chunkSize, String(sizeBytes)),
      (HeaderName.chunkEncoding, encoding.headerValue),
      (HeaderName.chunkHMAC, Hex.encode(mac)),
    ]
    if let contentSHA256 {
      fields.append((HeaderName.contentDigest, ContentDigest.headerValue(sha256: contentSHA256)))
    }
    return fields
  }
}

/// What the further header fields of a whole-file request say.
public struct FileHeaders: Hashable, Sendable {
  /// Makes a repetition the same request.
  public var idempotencyKey: IdempotencyKey
  /// The nonce that the MAC is bound to, 32 bytes.
  public var nonce: [UInt8]
  /// Last change, nanoseconds since 1970.
  public var modifiedNanoseconds: Int64
  /// Permission bits.
  public var mode: UInt32
  /// The client's identity of the file.
  public var fileID: String?
  /// What to do when the name is taken, for receivers that know of no owners.
  public var ifExists: IfExists
  /// Whose the name may be; nil from older clients.
  public var ownership: NameOwnership?

  /// Collects what the fields say.
  public init(
    idempotencyKey: IdempotencyKey, nonce: [UInt8], modifiedNanoseconds: Int64, mode: UInt32, fileID: String?,
    ifExists: IfExists, ownership: NameOwnership? = nil
  ) {
    self.ownership = ownership
    self.idempotencyKey = idempotencyKey
    self.nonce = nonce
    self.modifiedNanoseconds = modifiedNanoseconds
    self.mode = mode
    self.fileID = fileID
    self.ifExists = ifExists
  }

  /// Reads the fields; `value` looks one up by its name, without regard to case.
  public init(reading value: (String) -> String?) throws(HeaderViolation) {
    idempotencyKey = try HeaderReading.idempotencyKey(value)
    nonce = try HeaderReading.digest(HeaderName.chunkNonce, value).bytes
    modifiedNanoseconds = try HeaderReading.signedNumber(HeaderName.fileModifiedNanoseconds, value) ?? 0
    let mode = try value(HeaderName.fileMode).map { _ throws(HeaderViolation) in
      try HeaderReading.number(HeaderName.fileMode, value)
    }
    guard let mode = UInt32(exactly: mode ?? 0o644), mode <= 0o7777 else {
      throw HeaderViolation(field: HeaderName.fileMode, reason: "must be at most 4095, the permission bits in decimal")
    }
    self.mode = mode
    fileID = try HeaderReading.shortText(HeaderName.fileID, value)
    ifExists = try HeaderReading.word(HeaderName.ifExists, value) ?? .replace
    ownership = try NameOwnership(reading: value)
  }

  /// The fields, to be sent.
  public var fields: [(name: String, value: String)] {
    var fields = [
      (HeaderName.idempotencyKey, idempotencyKey.headerValue),
      (HeaderName.chunkNonce, Hex.encode(nonce)),
      (HeaderName.fileModifiedNanoseconds, String(modifiedNanoseconds)),
      (HeaderName.fileMode, String(mode)),
      (HeaderName.ifExists, ifExists.rawValue),
    ]
    if let fileID { fields.append((HeaderName.fileID, fileID)) }
    return fields + (ownership?.fields ?? [])
  }
}

/// Reads single header fields, strictly.
public enum HeaderReading {
  /// The `Idempotency-Key` of a request that needs one.
  public static func idempotencyKey(_ value: (String) -> String?) throws(HeaderViolation) -> IdempotencyKey {
    let field = HeaderName.idempotencyKey
    guard let text = value(field) else { throw HeaderViolation(field: field, reason: "is missing") }
    guard let key = IdempotencyKey(headerValue: text) else {
      throw HeaderViolation(field: field, reason: "must be a quoted string of 1 to 255 printable ASCII characters")
    }
    return key
  }

  static func digest(_ field: String, _ value: (String) -> String?) throws(HeaderViolation) -> Digest32 {
    guard let text = value(field) else { throw HeaderViolation(field: field, reason: "is missing") }
    guard let digest = Digest32(hex: text) else {
      throw HeaderViolation(field: field, reason: "must be 64 hexadecimal digits")
    }
    return digest
  }

  static func checksum(_ field: String, _ value: (String) -> String?) throws(HeaderViolation) -> UInt32 {
    guard let text = value(field) else { throw HeaderViolation(field: field, reason: "is missing") }
    guard let bytes = Hex.decode(text), bytes.count == 4 else {
      throw HeaderViolation(field: field, reason: "must be 8 hexadecimal digits")
    }
    return bytes.reduce(0) { $0 << 8 | UInt32($1) }
  }

  static func number(_ field: String, _ value: (String) -> String?) throws(HeaderViolation) -> UInt64 {
    guard let text = value(field) else { throw HeaderViolation(field: field, reason: "is missing") }
    guard let number = DecimalText.unsigned(text) else {
      throw HeaderViolation(field: field, reason: "must be a decimal number without sign or leading zero")
    }
    return number
  }

  static func signedNumber(_ field: String, _ value: (String) -> String?) throws(HeaderViolation) -> Int64? {
    guard let text = value(field) else { return nil }
    guard let number = DecimalText.signed(text) else {
      throw HeaderViolation(field: field, reason: "must be a decimal number of at most 64 bits")
    }
    return number
  }

  static func word<Word: RawRepresentable & CaseIterable>(
    _ field: String, _ value: (String) -> String?
  ) throws(HeaderViolation) -> Word? where Word.RawValue == String {
    guard let text = value(field) else { return nil }
    guard let word = Word(rawValue: text) else {
      let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
      throw HeaderViolation(field: field, reason: "must be one of: \(words)")
    }
    return word
  }

  static func encoding(_ value: (String) -> String?) throws(HeaderViolation) -> ChunkEncoding {
    guard let text = value(HeaderName.chunkEncoding) else { return .identity }
    guard let encoding = ChunkEncoding(headerValue: text) else {
      throw HeaderViolation(
        field: HeaderName.chunkEncoding,
        reason: "must be one of: identity, lz4, zstd, zstd;stride=S, zstd;stride=S;difference=W (S up to 64, W up to S)"
      )
    }
    return encoding
  }

  static func shortText(_ field: String, _ value: (String) -> String?) throws(HeaderViolation) -> String? {
    guard let text = value(field) else { return nil }
    let bytes = text.utf8
    guard !bytes.isEmpty, bytes.count <= ProtocolLimits.shortTextBytesMax,
      bytes.allSatisfy({ (0x20...0x7e).contains($0) })
    else { throw HeaderViolation(field: field, reason: "must be 1 to 255 printable ASCII characters") }
    return text
  }

  static func contentDigest(_ value: (String) -> String?) throws(HeaderViolation) -> Digest32? {
    guard let text = value(HeaderName.contentDigest) else { return nil }
    switch ContentDigest.read(text) {
    case .sha256(let digest): return digest
    case .absent: return nil
    case .malformed:
      throw HeaderViolation(field: HeaderName.contentDigest, reason: "must be a digest field, as sha-256=:BASE64:")
    }
  }
}
