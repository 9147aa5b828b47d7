import CLinux
import Glibc

/// Whether others than the daemon get at the spool past the mount. Pure.
///
/// A user who can enter the spool's folder can write captures of which the daemon learns nothing, and put other things in their
/// place. The folder itself has to keep them out: the mode of the captures' own folder is that of the mount's root, which
/// the users of the mount may change.
public enum SpoolPrivacy: Hashable, Sendable {
  /// Only the daemon's user (and root) can enter it.
  case isPrivate
  /// Others can enter it; it is the daemon's, and holds nothing but what a mount makes, so that no other user needs it open.
  case canBeTightened
  /// Others can enter it, and something else lies there that may be meant for them.
  case holdsMore(name: String)
  /// It is another user's, who can enter it whatever its mode.
  case belongsToAnother(user: UInt32)

  /// What a mount makes in its spool, and what doctor tries there.
  private static let ownNames: Set<String> = ["captures", ".state", "lost+found"]

  /// Of a folder with a mode and an owner, in which these names stand.
  init(mode: mode_t, owner: uid_t, daemon: uid_t, names: [String]) {
    guard owner == daemon else {
      self = .belongsToAnother(user: owner)
      return
    }
    guard mode & 0o077 != 0 else {
      self = .isPrivate
      return
    }
    self = names.sorted().first { !Self.ownNames.contains($0) }.map { .holdsMore(name: $0) } ?? .canBeTightened
  }

  /// Of the folder at a path; nil when it cannot be examined.
  public init?(of path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    var names: [String] = []
    if let stream = opendir(path) {
      defer { closedir(stream) }
      while let entry = uploadfs_next_child(stream) { names.append(String(cString: uploadfs_entry_name(entry))) }
    }
    self.init(mode: status.st_mode, owner: status.st_uid, daemon: geteuid(), names: names)
  }

  /// Others cannot do without it: the root, what stands there, and what every user may write.
  private static func isOfSystem(_ path: String) -> Bool {
    let place = SpoolFolder.resolved(path)
    var status = stat()
    let isShared = stat(place, &status) == 0 && status.st_mode & S_ISVTX != 0
    let names = place.unicodeScalars.split(separator: "/").map(String.init)
    return isShared || names.count < 2 || names.count == 2 && names[0] == "var" || ["usr", "etc"].contains(names[0])
  }

  /// Why a mount refuses the spool, and what to do; nil when it does not.
  public func refusal(of path: String) -> (reason: String, advice: String)? {
    switch self {
    case .isPrivate, .canBeTightened: nil
    case .holdsMore(let name):
      (
        "other users can enter the spool \(path), in which also “\(name)” lies",
        Self.isOfSystem(path)
          ? "choose a folder of its own for the spool"
          : "run `chmod 700 \(path)` if they need not, or choose a folder of its own for the spool"
      )
    case .belongsToAnother(let user):
      (
        "the spool \(path) belongs to user \(user), who could change captures past the mount",
        "mount as that user, give the folder away (`chown \(geteuid()) \(path)`), or choose another spool"
      )
    }
  }
}
