import Testing

@testable import FileModel

@Suite struct NameTemplateTests {
  private func facts(_ path: String, sequence: Int64? = 42) -> NameTemplate.Values {
    NameTemplate.Values(
      path: RelativePath(path), id: FileID(high: 1, low: 2), date: "2026-11-22", time: "051728", host: "cam1",
      sequence: sequence)
  }

  private func name(_ template: String, of path: String, sequence: Int64? = 42) throws -> String {
    try NameTemplate(template).name(of: facts(path, sequence: sequence)).displayText
  }

  @Test func placeholdersStandForTheirFacts() throws {
    #expect(try name("{path}", of: "a/b/scan.tar.gz") == "a/b/scan.tar.gz")
    #expect(try name("{dir}/{date}/{time}-{stem}.{ext}", of: "a/b/scan.tar.gz") == "a/b/2026-11-22/051728-scan.tar.gz")
    #expect(try name("{host}/{name}", of: "a/b/scan.mov") == "cam1/scan.mov")
    #expect(try name("{id}", of: "x") == "00000000000000010000000000000002")
    #expect(try name("{{{name}}}", of: "x") == "{x}")
  }

  @Test func numbersArePaddedToTheirWidth() throws {
    #expect(try name("{seq}", of: "x") == "00042")
    #expect(try name("{seq:1}", of: "x") == "42" && (try name("{seq:9}", of: "x")) == "000000042")
    #expect(try name("{seq:1}", of: "x", sequence: 1_234_567) == "1234567")
    #expect(try name("s{seq:3}", of: "x", sequence: nil) == "s{seq}")
  }

  @Test func whatIsNotThereLeavesNoTrace() throws {
    #expect(try name("{dir}/{name}", of: "x") == "x")
    #expect(try name("{stem}.{ext}", of: "README") == "README")
    #expect(try name("{stem}.{ext}", of: ".profile") == ".profile")
    #expect(try name("{name}/{ext}", of: "README") == "README")
    #expect(try NameTemplate("{path}{ext}").name(of: facts("a")).displayText == "a")
    #expect(try name("...{ext}/{name}", of: "README") == "README" && (try name("..{ext}/{name}", of: "a")) == "a")
    #expect(try name("{path}", of: ".../x") == ".../x")
  }

  @Test func bytesThatAreNoTextStayAsTheyAre() throws {
    var facts = facts("x")
    facts.path = RelativePath(bytes: [0xff, 0x2e, 0xfe])
    #expect(try NameTemplate("{stem}-.{ext}").name(of: facts).bytes == [0xff, 0x2d, 0x2e, 0xfe])
  }

  @Test(arguments: [
    ("{nmae}", "{path}, {dir}, {name}"), ("{seq:0}", "1 to 9"), ("{seq:10}", "1 to 9"), ("{seq:x}", "1 to 9"),
    ("{name", "without its other"), ("name}", "without its other"), ("", "empty"), ("/{name}", "empty folder"),
    ("a//{name}", "empty folder"), ("{name}/", "empty folder"), ("../{name}", "empty folder"), ("a/./{name}", "“.”"),
    ("all.mov", "the same name"), ("{date}/{host}.{ext}", "the same name"), ("{name}\n", "control"),
  ])
  func aBadTemplateSaysWhatIsPossible(template: String, said: String) {
    let problem = #expect(throws: FileRuleProblem.self) { try NameTemplate(template) }
    #expect(problem?.message.contains(said) == true, "\(problem?.message ?? "")")
  }

  @Test func anotherNameIsMadeBeforeTheExtension() {
    let cases = [("a.d/scan.mov", "a.d/scan-2.mov"), ("scan", "scan-2"), (".x", ".x-2"), ("a.d/b", "a.d/b-2")]
    for (name, other) in cases {
      #expect(NameTemplate.distinguished(RelativePath(name), by: 2) == RelativePath(other))
      let found = NameTemplate.number(in: RelativePath(other))
      #expect(found?.name == RelativePath(name) && found?.number == 2)
      #expect(NameTemplate.number(in: RelativePath(name)) == nil)
    }
    for name in ["a-1", "a-02", "a-+2", "a-x.mov", "a-2b.mov", "a-", "a-99999999999999999999"] {
      #expect(NameTemplate.number(in: RelativePath(name)) == nil)
    }
  }

  @Test func aRuleCanHaveOne() throws {
    let rule = try FileRule("*.mov name={date}/my\\ {stem}-{seq:3}.{ext} close=wait")
    #expect(rule.name?.text == "{date}/my {stem}-{seq:3}.{ext}" && rule.close == .wait)
    let rules = FileRules(rules: [rule])
    #expect(rules.haveNames && rules.settings(for: RelativePath("a.mov")).name == rule.name)
    #expect(rules.settings(for: RelativePath("a.wav")).name == nil && !FileRules().haveNames)
    #expect(throws: FileRuleProblem.self) { try FileRule("*.mov name={what}") }
  }
}
