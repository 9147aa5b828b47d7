import FileModel
import Synchronization

/// The virtual tree as the mount shows it: its nodes, the bytes that open files show, and who may see what is said of captures. Each part
/// has a lock of its own, below all others, under which nothing is asked of the tree or the disk but whether the tree has documents.
final class VirtualFiles: Sendable {
  let tree: any VirtualTree
  /// Names in the root that belong to the tree.
  let reservedNames: Set<EntryName>
  /// The kernel's numbers for what it knows of the tree.
  let nodes = Mutex(VirtualNodeTable())
  /// The bytes that open files show.
  let copies = VirtualCopies()
  /// Who could reach the folders of captures, also of those that are gone.
  let folderAccess = Mutex(FolderAccess())
  /// What the disk has said a moment ago of who may reach a capture; forgotten with each change of names, owners and modes.
  let recentAccess = Mutex(RecentAccess())

  init(of tree: any VirtualTree) {
    self.tree = tree
    reservedNames = Set(tree.topLevelNames.map { EntryName(bytes: $0) })
  }
}
