package import FileModel

/// The latest publication at the path of a file that the scan has found, although the catalog does not record this
/// capture as delivered. The capture that was there was removed in the mount, or a later content of it was still to be
/// sent.
public struct FormerPublication: Hashable, Sendable {
  /// The published content.
  package let publication: EarlierPublication
  /// The file that it was published from.
  package var origin: PublicationOrigin
  /// The requested name.
  package let name: String
  /// The time of publication by the server's clock, milliseconds since 1970; 0 where that is not known.
  package let publishedAtMilliseconds: Int64
  /// Nothing else was sent there since of which no answer is known.
  package var isLast = true

  /// A publication and its origin.
  public init(
    publication: EarlierPublication, origin: PublicationOrigin, name: String, publishedAtMilliseconds: Int64,
    isLast: Bool = true
  ) {
    self.publication = publication
    self.origin = origin
    self.name = name
    self.publishedAtMilliseconds = publishedAtMilliseconds
    self.isLast = isLast
  }

  /// A content of this capture was published.
  package func isOf(_ file: FileID) -> Bool { publication.fileID == file }

  /// The file was changed after what was published.
  package func isBefore(_ snapshot: FileSnapshot) -> Bool { origin.modifiedNanoseconds < snapshot.modifiedNanoseconds }
}
