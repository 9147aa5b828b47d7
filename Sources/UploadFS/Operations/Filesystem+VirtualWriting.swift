import FileModel
import Glibc
import Synchronization

/// Commands that are written to the status of a captured file. The kernel lets only users write them who can write the file.
extension Filesystem {
  /// No order is longer.
  private static let orderBytesMax = 4096

  /// Fails where nothing can be written.
  func requireWritable(_ path: RelativePath) throws(SystemError) {
    guard virtual.tree.isWritable(path) else { throw .readOnly }
  }

  /// Takes one order: a call that begins where the file does, or appends.
  func writeVirtual(
    _ handle: VirtualHandle, at offset: Int64, _ bytes: UnsafeRawBufferPointer, appends: Bool
  ) throws(SystemError) -> Int {
    guard !bytes.isEmpty else { return 0 }
    try requireWritable(handle.path)
    guard offset == 0 || appends, bytes.count <= Self.orderBytesMax else { throw .invalid }
    do throws(VirtualWriteRefusal) {
      try virtual.tree.write(Array(bytes), to: handle.path)
    } catch {
      throw SystemError(code: error.errno)
    }
    return bytes.count
  }

  /// A shell empties a file before it writes to it; that is taken, and changes nothing. No other change is.
  func setVirtualAttributes(
    of node: NodeID, _ changes: AttributeChanges, handle number: UInt64?
  ) throws(SystemError) -> stat {
    guard let path = virtual.nodes.withLock({ $0[node]?.path }) else { throw .stale }
    // With a new size the kernel asks for its time as well.
    guard let size = changes.size, changes.mode == nil, changes.user == nil, changes.group == nil else {
      throw .readOnly
    }
    try requireWritable(path)
    guard size == 0 else { throw .invalid }
    return try virtualAttributes(of: node, handle: number)
  }
}
