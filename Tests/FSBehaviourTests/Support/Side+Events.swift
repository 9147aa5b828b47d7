import FileModel
import FilesystemCalls
import FilesystemFixtures
import Testing

/// What the sink of the mount is told of files of the test's folder.
extension Side {
  /// Waits until a file is complete under a name, and forgets every event so far.
  func settled(_ name: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> FileSnapshot {
    let snapshot = mount.sink.settled("work/" + name)
    _ = mount.sink.takeNames()
    return try #require(snapshot, "\(name) is never complete", sourceLocation: sourceLocation)
  }

  /// Waits until a file is complete under a name; the events so far, which are forgotten.
  func events(until name: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> [String] {
    try #require(
      mount.sink.settled("work/" + name) != nil, "\(name) is never complete", sourceLocation: sourceLocation)
    return events()
  }

  /// The events so far, which are forgotten. The scan of the empty spool is none of a file.
  func events() -> [String] { mount.sink.takeNames().filter { $0 != "scanEnded" } }

  /// A second file: when it is complete, the kernel has passed on what came before.
  func passAnotherFile(_ name: String = "another file") throws -> [String] {
    try self(.put(Path(name), "x"))
    return try events(until: name)
  }
}
