import ReceiverCore

/// Why a store cannot be opened.
public enum StoreOpeningError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The root cannot be used.
  case root(String)
  /// Another receiver uses the root.
  case locked(String)
  /// A credential's folder cannot be used.
  case credentialRoot(String)

  /// What is wrong, for people.
  public var description: String {
    switch self {
    case .root(let words), .credentialRoot(let words): words
    case .locked(let root): "\(root) is in use by another receiver"
    }
  }
}

extension StoreFailure {
  /// The failure, for people.
  var words: String {
    switch self {
    case .full: "the disk is full"
    case .nameExists: "a file of that name exists"
    case .nameTaken(let holder): "the name is taken: \(holder)"
    case .folderGone: "the folder of the name was taken away while a file was published in it"
    case .nameUnreachable(let reason), .misplaced(let reason), .io(let reason), .unsynced(let reason),
      .tooManyOpen(let reason), .damaged(let reason), .sessionGone(let reason):
      reason
    }
  }
}
