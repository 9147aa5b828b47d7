import FileModel

/// What a spool's file says of itself to the next run, wherever it lies then: which capture it is, whether its content is whole, which
/// parts of it are missing here, and where these are.
///
/// As text, `1` and the identity, then members that begin with a semicolon and a letter. Small enough to lie beside the inode of ext4
/// in most cases. What later versions add as members stands as it is; what is not understood doubts the content.
struct FileLabel: Hashable, Sendable {
  /// Nil for what a later version may know, and this one cannot read.
  var id: FileID?
  var mark: WriterStateXattr
  /// What is no longer in the spool.
  var released: ReleasedChunks?
  /// Where that is.
  var pointer: SessionPointer?
  /// Members of later versions.
  var others: [String] = []
  /// False where parts are missing, and it is not understood which: as they are, the bytes in the spool are no content.
  private(set) var saysWhatIsMissing = true

  private static let version = "1"
  private static let idDigits = 22
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
  /// The value of each byte that is a digit.
  private static let digitValues: [UInt8?] = {
    var values = [UInt8?](repeating: nil, count: 256)
    for (value, digit) in alphabet.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()
  private static let separator = ";"
  private static let markKey = "m"
  private static let releasedKey = "r"
  private static let contentsKey = "d"
  private static let pointerKey = "s"

  init(
    id: FileID?, mark: WriterStateXattr, released: ReleasedChunks? = nil, pointer: SessionPointer? = nil,
    others: [String] = []
  ) {
    self.id = id
    self.mark = mark
    self.released = released
    self.pointer = pointer
    self.others = others
  }

  /// What an attribute says.
  init(_ text: String) {
    let parts = text.split(separator: Character(Self.separator), omittingEmptySubsequences: false)
    var members = parts.map(String.init)[...]
    guard let head = members.popFirst(), head.hasPrefix(Self.version), let id = Self.id(head.dropFirst()) else {
      self.init(id: nil, mark: .unfinished)
      saysWhatIsMissing = !members.contains { $0.hasPrefix(Self.releasedKey) }
      return
    }
    self.init(id: id, mark: .none)
    var contents: String?
    for member in members {
      let content = String(member.dropFirst())
      switch member.prefix(1) {
      case Self.markKey: mark = mark == .none ? WriterStateXattr(content) : .unfinished
      case Self.releasedKey:
        released = ReleasedChunks(content)
        if released == nil { saysWhatIsMissing = false }
      case Self.contentsKey: contents = content
      case Self.pointerKey: pointer = SessionPointer(content)
      default: others.append(member)
      }
    }
    if let contents { released?.takeContents(contents) }
    if released?.isEmpty == true { released = nil }
  }

  /// Parts are missing, and it is not understood which.
  mutating func losesWhatIsMissing() { saysWhatIsMissing = false }

  /// What an attribute is to hold.
  var text: String {
    var members = [Self.version + (id.map(Self.digits) ?? "")]
    if let text = mark.text { members.append(Self.markKey + text) }
    if let released, !released.isEmpty {
      members.append(Self.releasedKey + released.text)
      if let contents = released.contentsText { members.append(Self.contentsKey + contents) }
      if let pointer { members.append(Self.pointerKey + pointer.text) }
    }
    return (members + others).joined(separator: Self.separator)
  }

  private static func digits(of id: FileID) -> String {
    var rest = UInt128(id.high) << 64 | UInt128(id.low)
    var digits = [UInt8](repeating: 0, count: idDigits)
    for place in digits.indices.reversed() {
      digits[place] = alphabet[Int(rest & 63)]
      rest >>= 6
    }
    return String(decoding: digits, as: UTF8.self)
  }

  private static func id(_ digits: Substring) -> FileID? {
    guard digits.utf8.count == idDigits else { return nil }
    var number: UInt128 = 0
    for (place, digit) in digits.utf8.enumerated() {
      // The first digit has two bits.
      guard let value = digitValues[Int(digit)], place > 0 || value < 4 else { return nil }
      number = number << 6 | UInt128(value)
    }
    return FileID(high: UInt64(truncatingIfNeeded: number >> 64), low: UInt64(truncatingIfNeeded: number))
  }
}
