public import ChunkProtocol

/// Which file a publication may take the name from. A name has one owner: a file gives way to a later publication of the same client,
/// which names it, and to no other one silently.
public struct NameRights: Sendable {
  /// What a file is found as that has the name.
  public struct Holder: Sendable {
    /// What it says of itself.
    public var words: PublicationMark.Found
    /// Its present size.
    public var sizeBytes: UInt64
    /// Its present modification time.
    public var modifiedNanoseconds: Int64

    /// A file as it was found.
    public init(words: PublicationMark.Found, sizeBytes: UInt64, modifiedNanoseconds: Int64) {
      self.words = words
      self.sizeBytes = sizeBytes
      self.modifiedNanoseconds = modifiedNanoseconds
    }
  }

  /// Whether a file gives way.
  public enum Answer: Hashable, Sendable {
    case yes
    /// It is another's, and gives way because a user has said that whatever has the name does; the text says whose it is.
    case taken(from: String)
    /// Only if its content is that of one of these publications; otherwise the text says whose the name is.
    case ifContent(isOf: [PublicationClaim], otherwise: String)
    /// The text says whose the name is, for people.
    case no(String)
  }

  /// The publications that may be replaced, with the one that is asked for; nil where an older client says none.
  private let claims: [PublicationClaim]?
  private let fileID: String?
  /// Its user has said that the name is to be taken from whatever has it.
  private let takesAny: Bool

  /// The rights of a publication.
  public init(_ publication: Publication) {
    let receipt = publication.receipt
    fileID = receipt.fileID
    takesAny = publication.ownership?.ifTaken == .replace
    claims = publication.ownership.map { ownership in
      ownership.replaces + [
        PublicationClaim(
          fileID: receipt.fileID ?? "", merkleRoot: receipt.merkleRoot, sizeBytes: receipt.sizeBytes,
          chunkBytes: publication.chunkBytes)
      ]
    }
  }

  /// An older client replaces also what is no file, as it always did; and so does one that is to replace whatever is there.
  public var replacesWhatIsNoFile: Bool { claims == nil || takesAny }

  /// Whether the file gives way to the publication.
  public func answer(to holder: Holder) -> Answer {
    let answer = claims.map { ownAnswer($0, to: holder) } ?? olderAnswer(to: holder)
    guard takesAny else { return answer }
    // What may be its own is not read for a word in the log. Its earlier contents are not named where whatever has the name gives way.
    guard case .no(let words) = answer, !isOwn(holder) else { return .yes }
    return .taken(from: words)
  }

  private func isOwn(_ holder: Holder) -> Bool {
    guard case .mark(let mark) = holder.words else { return false }
    return isOfSameCapture(mark)
      && mark.isUnchanged(sizeBytes: holder.sizeBytes, modifiedNanoseconds: holder.modifiedNanoseconds)
  }

  private func ownAnswer(_ claims: [PublicationClaim], to holder: Holder) -> Answer {
    switch holder.words {
    case .mark(let mark):
      let isUnchanged = mark.isUnchanged(
        sizeBytes: holder.sizeBytes, modifiedNanoseconds: holder.modifiedNanoseconds)
      if claims.contains(where: { mark.isOf($0) }) {
        return isUnchanged ? .yes : .no("its file was changed since it was published")
      }
      // In chunks of another length the same content has another root.
      let candidates = claims.filter {
        isSameName($0.fileID, mark.fileID) && $0.chunkBytes != mark.chunkBytes && $0.mayBe(of: holder)
      }
      guard isUnchanged, !candidates.isEmpty else { return .no(words(for: mark)) }
      return .ifContent(isOf: candidates, otherwise: words(for: mark))
    case .nothing, .unreadable:
      let candidates = claims.filter { $0.mayBe(of: holder) }
      return candidates.isEmpty ? .no(Self.unknown) : .ifContent(isOf: candidates, otherwise: Self.unknown)
    }
  }

  /// What is said of a file whose content is none of those that may be replaced.
  public static let unknown = "it is a file that is not known to be of this capture"

  private func olderAnswer(to holder: Holder) -> Answer {
    switch holder.words {
    case .nothing: .yes
    case .unreadable: .no("it is a file that says of itself what this receiver does not understand")
    case .mark(let mark):
      isOfSameCapture(mark) ? .yes : .no(words(for: mark))
    }
  }

  private func isOfSameCapture(_ mark: PublicationMark) -> Bool {
    fileID.map { isSameName($0, mark.fileID) } ?? false
  }

  /// A restored spool may not know what its capture was published as since.
  private func words(for mark: PublicationMark) -> String {
    isOfSameCapture(mark)
      ? "it is a content of this capture that its client does not name" : "it is the capture \(mark.shownID)"
  }
}

extension PublicationMark {
  /// The identity for a log or an answer: a client chose it, or any program that can write to the folder, and it moves no cursor.
  fileprivate var shownID: String { fileID.unicodeScalars.map { $0.escaped(asASCII: true) }.joined() }
}

extension PublicationClaim {
  /// Whether the file's content may be the publication's, and can be compared with it.
  fileprivate func mayBe(of holder: NameRights.Holder) -> Bool { sizeBytes == holder.sizeBytes && isComparable }

  /// Whether the root can be computed from a file's content, in a number of steps that a file may cost.
  private var isComparable: Bool {
    guard sizeBytes > 0 else { return true }
    guard let chunkBytes, chunkBytes > 0 else { return false }
    return (sizeBytes - 1) / UInt64(chunkBytes) < UInt64(ProtocolLimits.chunkCountMax)
  }
}
