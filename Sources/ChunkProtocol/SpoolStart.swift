import Integrity

/// Which spool a client sends from, and which of its starts this is. A receiver that knows a later one tells a spool that was
/// restored from a backup, or runs twice, so.
public struct SpoolStart: Hashable, Sendable {
  /// Of the spool: 16 random bytes, chosen once.
  public var spool: [UInt8]
  /// How often the spool was started, this start included.
  public var count: UInt64
  /// Of this start: 16 random bytes. Two starts with one number are told apart by it.
  public var mark: [UInt8]

  /// Names a start.
  public init(spool: [UInt8], count: UInt64, mark: [UInt8]) {
    self.spool = spool
    self.count = count
    self.mark = mark
  }

  /// Reads ``HeaderName/spool``; nil for anything but what ``headerValue`` writes.
  public init?(headerValue: String) {
    let words = headerValue.split(separator: "-", omittingEmptySubsequences: false)
    guard words.count == 3, let spool = Hex.decode(String(words[0])), spool.count == ProtocolLimits.spoolBytes,
      let count = DecimalText.unsigned(words[1]), count > 0,
      let mark = Hex.decode(String(words[2])), mark.count == ProtocolLimits.spoolBytes
    else { return nil }
    self.init(spool: spool, count: count, mark: mark)
  }

  /// The header field's value: `SPOOL-COUNT-MARK`.
  public var headerValue: String { "\(Hex.encode(spool))-\(count)-\(Hex.encode(mark))" }
}

/// What a receiver says to a start that is not the last one that it knows of that spool.
public struct KnownSpoolStart: Hashable, Sendable {
  /// The spool that was told.
  public var spool: [UInt8]
  /// The number of the last start that the receiver knows.
  public var count: UInt64

  /// Names a start of a spool.
  public init(spool: [UInt8], count: UInt64) {
    self.spool = spool
    self.count = count
  }

  /// Reads ``HeaderName/spoolKnown``; nil for anything but what ``headerValue`` writes.
  public init?(headerValue: String) {
    let words = headerValue.split(separator: "-", omittingEmptySubsequences: false)
    guard words.count == 2, let spool = Hex.decode(String(words[0])), spool.count == ProtocolLimits.spoolBytes,
      let count = DecimalText.unsigned(words[1]), count > 0
    else { return nil }
    self.init(spool: spool, count: count)
  }

  /// The header field's value: `SPOOL-COUNT`.
  public var headerValue: String { "\(Hex.encode(spool))-\(count)" }
}
