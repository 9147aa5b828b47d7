import FilesystemCalls
import FilesystemFixtures
import Testing

extension Side {
  /// The daemon answers nothing meanwhile: its only thread (``MountOptions/inOrder``) waits for a virtual file's bytes.
  func whileTheDaemonStandsStill(_ play: () throws -> Void) throws {
    let reader = try another("reader of the status")
    mount.tree.hold()
    defer { mount.tree.letGo() }
    let held = try reader.begin(.get("../status/file.json"))
    try #require(mount.tree.waitUntilHeld())
    try play()
    mount.tree.letGo()
    try held.answer()
    reader.leave()
  }
}

extension Player {
  /// Begins a call that has to come to the daemon: while that stands still, there is no answer.
  func beginAndWait(_ call: Call) throws -> Pending {
    let pending = try begin(call)
    #expect(throws: Actor.Failure.self, "\(call) passes the daemon") {
      try pending.answer(within: .milliseconds(300))
    }
    return pending
  }
}
