import FileModel

/// Who may see what is said of the folders of captures: as the disk has said last, and of folders that are gone, as they were. The
/// status of captures that were in these is only for users who could get at them there, also where a folder of the same name has
/// been made since.
struct FolderAccess: Sendable {
  private static let knownMax = 1024
  private static let formerMax = 4096

  private var known: [RelativePath: FileOwnership] = [:]
  /// Of several that had the same name, what each of them allowed.
  private var former: [RelativePath: FileOwnership] = [:]
  /// Too many are gone to tell them apart.
  private var isOverfull = false

  /// The disk has said what a folder is like.
  mutating func found(_ folder: RelativePath, _ access: FileOwnership) {
    if known.count >= Self.knownMax, known[folder] == nil { known = [:] }
    known[folder] = access
  }

  /// What a folder is, or was, like; nil where that is not known.
  func last(_ folder: RelativePath) -> FileOwnership? { known[folder] ?? former[folder] }

  /// A folder has gone from its path; `isNeeded` says of which paths something is still said.
  mutating func left(_ folder: RelativePath, _ access: FileOwnership, isNeeded: (RelativePath) -> Bool) {
    known[folder] = access
    guard isNeeded(folder) else { return }
    if former.count >= Self.formerMax, former[folder] == nil {
      former = former.filter { isNeeded($0.key) }
      if former.count >= Self.formerMax { isOverfull = true }
    }
    guard !isOverfull else { return }
    former[folder] = former[folder].map { Self.both($0, access) } ?? access
  }

  /// A folder has come to a path of which something is still said: without a word of the one that was there, `unknown` is.
  mutating func came(_ folder: RelativePath, unknown: FileOwnership) {
    guard former[folder] == nil, !isOverfull else { return }
    former[folder] = known[folder] ?? unknown
  }

  /// What is left of the right to see something of what was in a folder, for those who could enter it and those above it.
  func restrict(_ access: FileOwnership, in folder: RelativePath) -> FileOwnership {
    var access = access
    if isOverfull { access.mode &= ~0o077 }
    var place = folder
    while place != .root {
      if let former = former[place] {
        let forAll = former.mode & 0o011 == 0o011
        if !forAll {
          // A member of the folder's group that could not enter it may be one of the others here.
          access.mode &= ~0o007
          if former.mode & 0o010 == 0 || former.group != access.group { access.mode &= ~0o070 }
        }
      }
      place = place.parent
    }
    return access
  }

  /// Names of what is gone are not for all who can list the folder that is there now.
  func hidesNames(in folder: RelativePath) -> Bool {
    guard !isOverfull else { return true }
    if let former = former[folder], former.mode & 0o055 != 0o055 { return true }
    let all = FileOwnership(user: 0, group: 0, mode: 0o777)
    return restrict(all, in: folder).mode & 0o077 != 0o077
  }

  private static func both(_ one: FileOwnership, _ other: FileOwnership) -> FileOwnership {
    var both = other
    both.mode &= one.mode
    if one.group != other.group, both.mode & 0o011 != 0o011 { both.mode &= ~0o077 }
    return both
  }
}
