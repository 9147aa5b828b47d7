import FilesystemCalls
import FilesystemFixtures
import Testing

/// What becomes of a test whose filesystem hangs.
@Suite struct BrokenMountTests {
  @Test(.enabled(if: InProcessMount.canBeAborted, "needs /sys/fs/fuse/connections"))
  func aCallThatHangs_failsItsTestAndIsAborted() async throws {
    try await withKnownIssue {
      try await mounted { side in
        side.mount.tree.hold()
        let hanging = try side.first.begin(.get("../status/file.json"))
        #expect(side.mount.tree.waitUntilHeld())
        // It would hang for ever: the process, which is killed, ends because the mount is aborted.
        try hanging.answer(within: .milliseconds(100))
      }
    } matching: { issue in
      // Whatever else is amiss, such as a process or a mount that is left, fails this test.
      if case .errorCaught(let error) = issue.kind, case Actor.Failure.late = error { true } else { false }
    }
  }
}
