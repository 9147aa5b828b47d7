import CLinux
import FileModel
import Glibc

/// The nodes of the virtual tree that the kernel knows, and since when each file's version has been what it is.
struct VirtualNodeTable {
  /// One node. A path that turns from a file into a directory becomes another node, as on any filesystem.
  struct Node {
    let path: RelativePath
    let shape: Shape
    var lookups: UInt64 = 0
    var version: UInt64
    var changedAt: timespec
  }

  enum Shape: Hashable, Sendable {
    case directory
    case file
    case link

    init(_ node: VirtualNode) {
      switch node {
      case .directory: self = .directory
      case .file: self = .file
      case .link: self = .link
      }
    }
  }

  private struct Key: Hashable {
    let path: RelativePath
    let shape: Shape
  }

  private var nodes: [NodeID: Node] = [:]
  private var byKey: [Key: NodeID] = [:]
  private var nextNumber = NodeID.firstVirtual.rawValue

  subscript(id: NodeID) -> Node? { nodes[id] }

  var count: Int { nodes.count }

  /// The node of a path that the tree has just shown, its change time moved on when the version is new.
  mutating func node(at path: RelativePath, shape: Shape, version: UInt64, now: timespec) -> NodeID {
    let key = Key(path: path, shape: shape)
    if let known = byKey[key] {
      if nodes[known]?.version != version {
        nodes[known]?.version = version
        nodes[known]?.changedAt = now
      }
      return known
    }
    let id = NodeID(rawValue: nextNumber)
    nextNumber += 1
    nodes[id] = Node(path: path, shape: shape, version: version, changedAt: now)
    byKey[key] = id
    return id
  }

  mutating func countLookup(_ id: NodeID) {
    nodes[id]?.lookups &+= 1
  }

  mutating func forget(_ id: NodeID, count: UInt64) {
    guard let node = nodes[id] else { return }
    guard node.lookups <= count else {
      nodes[id]?.lookups -= count
      return
    }
    nodes[id] = nil
    byKey[Key(path: node.path, shape: node.shape)] = nil
  }

  /// A stable inode number for a virtual path, far from those of real filesystems.
  static func inodeNumber(of path: RelativePath) -> UInt64 {
    // FNV-1a.
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in path.bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return 1 << 56 | hash >> 8
  }
}
