import FilesystemFixtures
import FileModel
import FilesystemCalls
import Glibc
import Promises
import Testing
import UploadFS

/// Modes, owners, times and permissions.
@Suite struct AttributeTests {
  private static let isRoot = geteuid() == 0
  private static let maker = Actor.Identity(user: 1111, group: 2222)

  @Test(.promises("S18a")) func attributesCanBeChangedAsLocally() async throws {
    try await comparison { side in
      try side(.put("f", "x"))
      for mode: UInt32 in [0o600, 0o444, 0o755, 0o1644, 0o7777, 0, 0o644] {
        try side(.chmod("f", mode))
        #expect(try side(.stat("f")).status?.mode == mode)
      }
      let times: [(Int64, Int64)] = [
        (1, 2), (1_700_000_000_123_456_789, 1_600_000_000_987_654_321), (-1_000_000_001, 0), (0, 1 << 61),
      ]
      for (access, modification) in times {
        try side(.utimens("f", access: .nanoseconds(access), modification: .nanoseconds(modification)))
        try side(.stat("f"))
      }
      try side(.symlink("f", "link"))
      try side(.utimens("link", access: .nanoseconds(5), modification: .nanoseconds(6), follows: false))
      #expect(try side(.lstat("link")).status?.modified == 6)
      try side(.stat("f"))
      try side(.mkdir("sub", mode: 0o700))
      try side(.chmod("sub", 0o2770))
      try side(.utimens("sub", access: .nanoseconds(7), modification: .nanoseconds(8)))
      try side(.stat("sub"))
      try side(.open("f", .readWrite, as: "file"))
      try side(.fchmod("file", 0o640))
      try side(.futimens("file", access: .nanoseconds(9), modification: .nanoseconds(10)))
      try side(.fstat("file"))
      try side(.close("file"))
      #expect(try side(.stat("f")).status?.modified == 10)
    }
  }

  @Test(.promises("S18a")) func timesCanBeLeftOutOrSetToNow() async throws {
    try await comparison { side in
      try side(.put("f", "x"))
      let old = TimeChange.nanoseconds(1_000_000_000)
      for (access, modification) in [(TimeChange.now, TimeChange.omit), (.omit, .now), (.omit, .omit), (.now, .now)] {
        try side(.utimens("f", access: old, modification: old))
        try side(.utimens("f", access: access, modification: modification))
        // A time that is kept is compared as it is; one that was set to now is not, and so differs from the old one.
        let status = try side(.stat("f")).status
        #expect((status?.accessed == 1_000_000_000) == (access == .omit))
        #expect((status?.modified == 1_000_000_000) == (modification == .omit))
      }
    }
  }

  @Test(.promises("S18a"), .enabled(if: isRoot, "only root can give files away"))
  func ownersCanBeChangedAsLocally() async throws {
    try await comparison { side in
      try side(.put("f", "x"))
      try side(.chmod("f", 0o6755))
      try side(.chown("f", user: 1234, group: 2345))
      try side(.stat("f"))
      try side(.chown("f", group: 99))
      try side(.symlink("f", "link"))
      try side(.chown("link", user: 7, group: 8, follows: false))
      try side(.chown(".", user: 55, group: 66))
      #expect(try side(.stat(".")).status?.user == 55)
    }
  }

  @Test(.promises("S18b")) func attributesAreNoChangeOfTheContent() async throws {
    try await mounted { side in
      try side(.put("f", "x"))
      let before = try #require(side.mount.sink.settled("work/f"))
      _ = side.mount.sink.takeNames()
      try side(.chmod("f", 0o640))
      try side(.chown("f", user: geteuid(), group: getegid()))
      try side(.utimens("f", access: .nanoseconds(1), modification: .nanoseconds(2)))
      // A writer's end comes after what happened before it.
      try side(.tryOpen("f", .writeOnly))
      let after = try #require(side.mount.sink.settled("work/f"))
      #expect(after.epoch == before.epoch && after.mode & 0o7777 == 0o640 && after.modifiedNanoseconds == 2)
      #expect(Set(side.mount.sink.takeNames()) == ["attributesChanged", "opened", "settled"])
    }
  }

  @Test(.promises("S18c")) func theModeOfTheRootIsKeptInTheSpool() async throws {
    // As an earlier mount has left it.
    let before = MountOptions { configuration in
      mkdir(configuration.spoolDirectory, 0o700)
      mkdir(configuration.spoolDirectory + "/captures", 0o700)
      chmod(configuration.spoolDirectory + "/captures", 0o751)
    }
    try await mounted(before) { side in
      #expect(try side(.stat("..")).status?.mode == 0o751)
      try side(.chmod("..", 0o710))
      #expect(try side(.stat("..")).status?.mode == 0o710)
      var status = Glibc.stat()
      try #require(lstat(side.mount.captures, &status) == 0)
      #expect(status.st_mode & 0o7777 == 0o710)
    }
  }

  @Test(.promises("S19")) func timesMoveWhenTheyDoLocally() async throws {
    try await comparison { side in
      try side(.put("f", "x"))
      let changes: [(Path, [Call])] = [
        ("f", [.put("f", "y")]), ("f", [.truncate("f", 100)]), ("f", [.chmod("f", 0o640)]), ("f", [.get("f")]),
        ("f", [.link("f", "g")]), ("f", [.unlink("g")]), (".", [.mkdir("h")]), (".", [.rmdir("h")]),
        (".", [.put("f", "z")]), (".", [.rename("f", "i"), .rename("i", "f")]), ("f", [.tryOpen("f", .truncate)]),
      ]
      for (watched, calls) in changes {
        for path: Path in ["f", "."] {
          try side(.utimens(path, access: .nanoseconds(1000), modification: .nanoseconds(1000)))
        }
        let before = try side(.stat(watched)).status
        for call in calls { try side(call) }
        let after = try side(.stat(watched)).status
        side.note("modified by \(calls)", before?.modified != after?.modified)
        side.note("changed by \(calls)", before?.changed != after?.changed)
      }
    }
  }

  @Test(.promises("S20a", "S20b", "S20c"), .enabled(if: isRoot, "only root can start processes of other users"))
  func newObjectsBelongToTheirMaker() async throws {
    try await comparison(.others) { side in
      try side(.chmod(".", 0o777))
      try side(.mkdir("shared"))
      try side(.chown("shared", group: 4321))
      try side(.chmod("shared", 0o2777))
      let maker = try side.another("maker", as: Self.maker)
      try maker(.umask(0o027))
      try maker(.put("file", "x"))
      try maker(.mkdir("folder"))
      try maker(.symlink("x", "link"))
      try maker(.mknod("fifo", .fifo))
      try maker(.put("shared/file", "x"))
      try maker(.mkdir("shared/folder"))
      try maker(.tryOpen("bits", [.create, .writeOnly], mode: 0o4711))
      let status = try side(.stat("file")).status
      #expect(status?.user == 1111 && status?.group == 2222 && status?.mode == 0o640)
      // Root in another group.
      let other = try side.another("other", as: Actor.Identity(user: 0, group: 2222))
      try other(.put("of the group", "x"))
      try other(.mkdir("folder of the group"))
      #expect(try side(.stat("of the group")).status?.group == 2222)
      #expect(try side(.stat("shared/folder")).status?.group == 4321)
    }
  }

  @Test(.promises("S1", "S20c")) func directoriesHaveTheModeThatTheyAreMadeWith() async throws {
    try await comparison { side in
      for (number, mask): (Int, UInt32) in [0o022, 0o027, 0o777].enumerated() {
        try side(.umask(mask))
        for mode: UInt32 in [0o777, 0o1777, 0o1700, 0o7755, 0] {
          let path = Path("\(number) \(mode)")
          #expect(try side(.mkdir(path, mode: mode)) == .done)
          #expect(try side(.stat(path)).status?.mode == mode & 0o1777 & ~mask)
        }
      }
      try side(.umask(0o022))
    }
  }

  @Test(.promises("S21a"), .enabled(if: isRoot, "only root can start processes of other users"))
  func permissionsAreCheckedByOwnerGroupAndMode() async throws {
    try await comparison(.others) { side in
      for (name, mode): (Path, UInt32) in [("private", 0o600), ("readable", 0o644), ("own", 0o600)] {
        try side(.put(name, "content"))
        try side(.chmod(name, mode))
      }
      try side(.chown("own", user: 1111, group: 2222))
      try side(.mkdir("closed", mode: 0o700))
      try side(.mkdir("sticky"))
      try side(.chmod("sticky", 0o1777))
      try side(.put("sticky/f", ""))
      let other = try side.another("other", as: Self.maker)
      #expect(try other(.get("private")) == .failed(.accessDenied))
      #expect(try other(.get("readable")) == .content("content"))
      try other(.put("readable", "no"))
      try other(.get("closed/f"))
      try other(.put("closed/new", ""))
      try other(.unlink("sticky/f"))
      try other(.rename("sticky/f", "sticky/g"))
      try other(.chmod("readable", 0o777))
      try other(.chown("own", user: 0, group: 0))
      try other(.utimens("readable", access: .nanoseconds(1), modification: .nanoseconds(1)))
      #expect(try other(.put("own", "yes")) == .done)
      try other(.chmod("own", 0o400))
      try other(.put("own", "no"))
      try other(.get("own"))
    }
  }

  @Test(.promises("S21b"), .enabled(if: isRoot, "only root can start processes of other users"))
  func aMountWithoutAllowOtherIsClosedToOthers() async throws {
    try await mounted { side in
      // Folders above may be entered, so that it is the mount that refuses.
      chmod(side.mount.folder, 0o755)
      let other = try Actor(in: "/", as: Self.maker)
      defer { other.leave() }
      let call = Call.list(Path(side.mount.root))
      #expect(try other.answer(other.begin(call, onThread: false), of: call) == .failed(.accessDenied))
    }
  }

  @Test(.promises("S22a", "S22b"), .enabled(if: isRoot, "only root can start processes of other users"))
  func aWriteOfAnOrdinaryUserClearsTheSetIDBits() async throws {
    try await comparison(.others) { side in
      try side(.chmod(".", 0o777))
      try side(.put("f", "x"))
      try side(.chown("f", user: 1111, group: 2222))
      try side(.chmod("f", 0o6777))
      let other = try side.another("other", as: Actor.Identity(user: 3333, group: 3333))
      try other(.open("f", [.writeOnly, .append], as: "file"))
      try other(.write("file", "x"))
      try other(.close("file"))
      #expect(try side(.stat("f")).status?.mode == 0o777)
      #expect(try side(.get("f")) == .content("xx"))
    }
  }

  @Test(.promises("S23a")) func thereAreNoExtendedAttributes() async throws {
    try await mounted { side in
      try side(.put("f", "x"))
      let unsupported = Answer.failed(.notSupported)
      #expect(try side(.setxattr("f", "user.note", "x")) == unsupported)
      #expect(try side(.getxattr("f", "user.note")) == unsupported)
      #expect(try side(.listxattr("f")) == unsupported)
      #expect(try side(.removexattr("f", "user.note")) == unsupported)
      let list = try side(.getxattr("f", "system.posix_acl_access"))
      #expect(list == unsupported || list == .failed(.noAttribute))
    }
  }

  @Test(.promises("S73")) func capturesAskForLargeWrites() async throws {
    try await mounted { side in
      try side(.open("recording", [.create, .writeOnly], as: "file"))
      #expect(try side(.fstat("file")).status?.blockSize == 128 << 10)
      #expect(try side(.stat("recording")).status?.blockSize == 128 << 10)
      try side(.close("file"))
    }
  }
}
