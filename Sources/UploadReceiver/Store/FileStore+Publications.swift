import CLinux
public import ChunkProtocol
import Glibc
import Integrity
public import ReceiverCore

extension FileStore {
  /// What lies under the name of a session that is being opened, or under that with a number, says that it is of the same file, and was left
  /// alone since it was published. What cannot be read says nothing: then the file is sent, and replaces nothing by that.
  public func published(before facts: SessionRecord) -> PublishedContent? {
    guard !facts.opening.fileID.isEmpty else { return nil }
    do throws(StoreFailure) {
      return try tree(of: facts.credentialID).published(facts.opening.name, of: facts.opening.fileID)?.content
    } catch {
      return nil
    }
  }
}

extension PublishedTree {
  /// How many names of one file are checked.
  private static let namesAskedMax = 16

  func published(
    _ name: String, of fileID: String
  ) throws(StoreFailure) -> (file: FileDescriptor, content: PublishedContent)? {
    let parts = try PublishedTree.split(name)
    var directory = root
    for component in PublishedName.components(of: parts.folder) {
      guard let next = try PublishedTree.folder(component, in: directory) else { return nil }
      directory = next
    }
    for number in 1...PublishedTree.namesAskedMax {
      guard let numbered = number == 1 ? name : PublishedName.numbered(name, by: number),
        let file = try FileDescriptor.openPublished(
          String(try PublishedTree.split(numbered).lastComponent), in: directory)
      else { return nil }
      guard let content = try file.publishedContent(of: fileID) else { continue }
      var found = content
      if number > 1 { found.publishedAs = numbered }
      return (file, found)
    }
    return nil
  }
}

extension FileDescriptor {
  fileprivate func publishedContent(of fileID: String) throws(StoreFailure) -> PublishedContent? {
    guard case .mark(let mark) = try publicationMark(), mark.fileID.utf8.elementsEqual(fileID.utf8) else { return nil }
    let status = try status()
    let size = UInt64(clamping: status.st_size)
    guard mark.isUnchanged(sizeBytes: size, modifiedNanoseconds: status.modifiedNanoseconds) else { return nil }
    return PublishedContent(
      fileID: fileID, sizeBytes: size, merkleRoot: Hex.encode(mark.merkleRoot), chunkBytes: Int(mark.chunkBytes),
      modifiedNanoseconds: status.modifiedNanoseconds)
  }
}
