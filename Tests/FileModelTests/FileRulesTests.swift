import FileModel
import Promises
import Testing

private func matches(_ pattern: String, _ path: String) throws -> Bool {
  try Glob(pattern).matches(RelativePath(path))
}

@Suite struct GlobTests {
  @Test(arguments: [
    ("*.mov", "a.mov"), ("*.mov", "day/1/a.mov"), ("*.mov", ".mov"), ("scan?.tif", "x/scan7.tif"), ("*", "a/b"),
    ("[a-c]*", "x/b1"), ("[!a-c]*", "d"), ("[^a-c]*", "d"), ("[]]", "]"), ("[a-]", "-"), ("[\\]]", "]"),
    ("a**b", "axyb"),
    ("\\*", "*"), ("a\\ b", "a b"), ("raw/**", "raw/a"), ("raw/**", "raw/a/b/c"), ("**/a", "a"), ("**/a", "x/y/a"),
    ("a/**/b", "a/b"), ("a/**/b", "a/x/b"), ("a/**/b", "a/x/y/b"), ("/a.mov", "a.mov"), ("**/raw/*.dng", "1/raw/x.dng"),
    ("a/*", "a/b"), ("a/*/c", "a/b/c"), ("**", "a/b"), ("a/**b", "a/xxb"),
  ])
  func pattern_describes(pattern: String, path: String) throws {
    #expect(try matches(pattern, path), "\(pattern) must match \(path)")
  }

  @Test(arguments: [
    ("*.mov", "a.mov.part"), ("*.mov", "a.mov/b"), ("*.MOV", "a.mov"), ("scan?.tif", "scan.tif"), ("?", "ab"),
    ("[a-c]", "d"), ("[!a-c]", "a"), ("[c-a]", "b"), ("\\*", "a"), ("raw/**", "raw"), ("raw/**", "x/raw/a"),
    ("**/a", "xa"),
    ("a/**/b", "a/xb"), ("a/**/b", "ab"), ("/a.mov", "x/a.mov"), ("a/*", "a/b/c"), ("a/?", "a//"), ("a[/]b", "a/b"),
    ("a[!x]b", "a/b"), ("a/**b", "a/x/b"), ("*.mov", ""),
  ])
  func pattern_doesNotDescribe(pattern: String, path: String) throws {
    #expect(try !matches(pattern, path), "\(pattern) must not match \(path)")
  }

  @Test func names_areBytes() throws {
    let broken = RelativePath(bytes: [0xff, 0xfe, 0x2e, 0x61])
    #expect(try Glob("*.a").matches(broken))
    #expect(try Glob("??.a").matches(broken))
    // One character of two bytes.
    #expect(try matches("??", "é"))
    #expect(try !matches("?", "é"))
  }

  @Test(.timeLimit(.minutes(1))) func manyStars_takeNoLonger() throws {
    let path = RelativePath(String(repeating: "a", count: 4000))
    #expect(try !Glob(String(repeating: "*a", count: 120) + "b").matches(path))
    #expect(try !Glob(String(repeating: "**/", count: 120) + "b").matches(path))
  }

  @Test(arguments: [
    ("", Glob.Problem.empty), ("/", .empty), ("[a", .unclosedSet), ("[]", .unclosedSet), ("a\\", .endsWithBackslash),
    ("raw/", .emptyComponent), ("a//b", .emptyComponent), ("//a", .emptyComponent), ("**/", .emptyComponent),
  ])
  func whatIsNoPattern_isSaid(text: String, problem: Glob.Problem) {
    #expect(throws: problem) { try Glob(text) }
  }
}

@Suite struct FileRulesTests {
  @Test func withoutRules_theDefaultsHold() {
    var defaults = FileSettings()
    defaults.upload = .onClose
    #expect(FileRules(defaults: defaults).settings(for: RelativePath("a/b")) == defaults)
    #expect(FileSettings().upload == .whileWriting && FileSettings().interrupted == .hold)
    #expect(FileSettings().close == .return && FileSettings().fsync == .local)
    #expect(FileSettings().compress == .auto && !FileRules().haveCompressions)
  }

  @Test func laterRule_winsForEachSettingByItself() throws {
    let rules = FileRules(rules: [
      try FileRule("*.mov upload=on-close close=wait"), try FileRule("raw/** upload=never fsync=remote"),
      try FileRule("raw/keep.mov upload=while-writing interrupted=discard"),
    ])
    let keep = rules.settings(for: RelativePath("raw/keep.mov"))
    #expect(
      keep.upload == .whileWriting && keep.close == .wait && keep.fsync == .remote && keep.interrupted == .discard)
    #expect(rules.settings(for: RelativePath("raw/x.mov")).upload == .never)
    #expect(rules.settings(for: RelativePath("x.mov")).upload == .onClose)
    #expect(rules.settings(for: RelativePath("x")) == FileSettings())
  }

  /// Regression: to Swift an equals sign and a combining mark behind it are one character.
  @Test func aRulesProperty_isCutAtBytes() throws {
    let rule = try FileRule("*.mov name=\u{301}{name}")
    #expect(rule.name.map { Array($0.text.utf8) } == Array("\u{301}{name}".utf8))
  }

  @Test func compression_isAPropertyLikeAnyOther() throws {
    var rules = FileRules(rules: [try FileRule("*.jpg compress=off"), try FileRule("raw/** compress=zstd")])
    rules.defaults.compress = .lz4
    #expect(rules.haveCompressions)
    let words = ["a.jpg", "raw/a.jpg", "a.tif"].map { rules.settings(for: RelativePath($0)).compress }
    #expect(words == [.off, .zstd, .lz4])
  }

  @Test func destinations_areAPropertyLikeAnyOther() throws {
    let rules = FileRules(rules: [
      try FileRule("*.mov to=main,archive,main when-full=release"), try FileRule("*.raw to=archive"),
    ])
    #expect(rules.settings(for: RelativePath("a.txt")).destinations == [.main])
    let film = rules.settings(for: RelativePath("a.mov"))
    #expect(film.destinations.map(\.text) == ["main", "archive"])
    #expect(film.whenFull == .refuse, "what one has given up, the other could not get any more")
    #expect(rules.settings(for: RelativePath("a.raw")).destinations.map(\.text) == ["archive"])
  }

  @Test(.promises("S74a")) func forOneDestination_filesOfOthersAreNotUploaded() throws {
    var rules = FileRules(rules: [try FileRule("*.raw to=archive"), try FileRule("*.log upload=never")])
    rules.asker = .main
    #expect(rules.settings(for: RelativePath("a.raw")).upload == .never && !rules.isForAsker(RelativePath("a.raw")))
    #expect(rules.settings(for: RelativePath("a.log")).upload == .never && rules.isForAsker(RelativePath("a.log")))
    rules.asker = DestinationName("archive")
    #expect(rules.settings(for: RelativePath("a.raw")).upload == .whileWriting)
    #expect(rules.settings(for: RelativePath("a.txt")).upload == .never)
  }

  @Test(arguments: ["", "-a", "A", "a b", "ä", "a/b", String(repeating: "a", count: 33)])
  func whatIsNoNameOfADestination(text: String) {
    #expect(DestinationName(text) == nil)
  }

  @Test func blankInAPattern_isEscaped() throws {
    let rule = try FileRule("my\\ film*.mov   upload=never\tclose=return")
    #expect(rule.pattern.matches(RelativePath("my film 2.mov")))
    #expect(rule.upload == .never && rule.close == .return)
  }

  @Test(arguments: [
    ("", "empty"), ("*.mov", "says nothing"), ("a b upload=never", "“b”"), ("* uplod=never", "no “uplod”"),
    ("* upload=later", "upload=on-close"), ("[ upload=never", "without “]”"), ("raw/ upload=never", "FOLDER/**"),
    ("* to=", "to=main,archive"), ("* compress=gzip", "compress=auto"), ("* to=a,,b", "names of destinations"),
  ])
  func whatIsNoRule_isSaid(text: String, expected: String) {
    do throws(FileRuleProblem) {
      _ = try FileRule(text)
      Issue.record("“\(text)” was taken")
    } catch {
      #expect(error.message.contains(expected), "\(error.message)")
    }
  }
}
