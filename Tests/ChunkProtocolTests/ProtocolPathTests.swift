import ChunkProtocol
import Promises
import Testing

@Suite struct ProtocolPathTests {
  static let paths: [(ProtocolPath, String)] = [
    (.root, "/v1/"), (.capabilities, "/v1/capabilities"), (.uploads, "/v1/uploads"),
    (.upload(id: "a-_Z9"), "/v1/uploads/a-_Z9"), (.chunk(id: "x", index: 0), "/v1/uploads/x/chunks/0"),
    (.chunk(id: "x", index: .max), "/v1/uploads/x/chunks/4294967295"), (.commit(id: "x"), "/v1/uploads/x/commit"),
    (.chunks(id: "x"), "/v1/uploads/x/chunks"), (.file(name: "a b/ü%.mov"), "/v1/files/a%20b/%C3%BC%25.mov"),
    (.files, "/v1/files"), (.stats, "/v1/stats"),
    (.metrics, "/metrics"),
  ]

  @Test(.promises("P22"), arguments: paths)
  func path_isWrittenAndReadBack(path: ProtocolPath, text: String) {
    #expect(path.text == text)
    #expect(ProtocolPath(target: text) == path)
    #expect(ProtocolPath(target: text + "?digests=1") == path)
  }

  @Test(arguments: [
    "", "/", "/v2/", "/v1/uploads/", "/v1/uploads/a/", "/v1/uploads/a/chunks/",
    "/v1/uploads/a/chunks/01", "/v1/uploads/a/chunks/-1", "/v1/uploads/a/chunks/+1",
    "/v1/uploads/a/chunks/4294967296", "/v1/uploads/a/chunks/99999999999999999999999", "/v1/uploads/a/chunks/1/",
    "/v1/uploads/a/other", "/v1/uploads/..", "/v1/uploads/a%2F", "/v1/uploads/a b", "v1/uploads/a",
    "/v1/files/%", "/v1/files/%zz", "/v1/files/%ff", "/V1/stats", "/v1/stats/",
  ])
  func target_ofNothing_isNoPath(target: String) {
    #expect(ProtocolPath(target: target) == nil)
  }

  @Test(.promises("P54")) func fileName_isOnlyDecodedNotChecked() {
    #expect(ProtocolPath(target: "/v1/files/..%2F..%2fetc") == .file(name: "../../etc"))
    #expect(ProtocolPath(target: "/v1/files/") == .file(name: ""))
    // To Swift a slash and a combining mark behind it are one character.
    #expect(ProtocolPath(target: "/v1/files/\u{301}a/b?\u{301}") == .file(name: "\u{301}a/b"))
    #expect(ProtocolPath.isFile(target: "/v1/files/\u{301}a"))
    #expect(ProtocolPath(target: "/v1/files/a%00") == .file(name: "a\u{0}"))
  }

  @Test(.promises("P11")) func sessionID_isShortAndPlain() {
    #expect(ProtocolPath.isSessionID(String(repeating: "a", count: 128)))
    #expect(!ProtocolPath.isSessionID(String(repeating: "a", count: 129)))
    #expect(!ProtocolPath.isSessionID(""))
    #expect(!ProtocolPath.isSessionID("é"))
  }

  @Test func digests_areAskedForByQuery() {
    #expect(ProtocolPath.wantsDigests(target: "/v1/uploads/a?x=2&digests=1"))
    #expect(!ProtocolPath.wantsDigests(target: "/v1/uploads/a?digests=0"))
    #expect(!ProtocolPath.wantsDigests(target: "/v1/uploads/a?xdigests=1"))
    #expect(!ProtocolPath.wantsDigests(target: "/v1/uploads/digests=1"))
  }
}
