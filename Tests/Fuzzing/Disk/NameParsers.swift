import FileModel
import Fuzzing

private let slash = UInt8(ascii: "/")

private func isDots(_ part: ArraySlice<UInt8>) -> Bool {
  part.count <= 2 && part.allSatisfy { $0 == UInt8(ascii: ".") }
}

/// Pattern and path, with a line between them.
private func halves(_ bytes: [UInt8]) -> (String, RelativePath) {
  let parts = bytes.split(separator: 0x0a, maxSplits: 1, omittingEmptySubsequences: false)
  let path = parts.count > 1 ? Array(parts[1]) : []
  // What the kernel calls a path.
  let sound = path.filter { $0 != 0 }.split(separator: slash).joined(separator: [slash])
  return (String(decoding: parts[0], as: UTF8.self), RelativePath(bytes: Array(sound)))
}

/// The pattern that stands for these bytes and no others.
private func literal(_ path: RelativePath) -> String? {
  guard let text = String(validating: path.bytes, as: UTF8.self), !text.isEmpty else { return nil }
  return text.unicodeScalars.reduce(into: "") { pattern, character in
    if "*?[]\\!^-".unicodeScalars.contains(character) { pattern.unicodeScalars.append("\\") }
    pattern.unicodeScalars.append(character)
  }
}

let nameParsers: [FuzzedParser] = [
  FuzzedParser(
    "Glob", bytesMax: 1024, words: ["**/", "/**", "*", "[!a-z]", "[^", "]", "\\", "?", "[]-a]", "\n"],
    texts: [
      "*.mov\na/b.mov", "/a/**/c\na/b/b/c", "[!a-c]?\\*\nxy*", "**/*a*a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaaaaaaaa", "[\nx",
      "[]-a]\n]", "a//b\na/b", "**\na/b", "a/**\na", "[z-a]\nb", "[\\]]\n]", "\\\n\\",
    ]
  ) { input in
    let (text, path) = halves(input.bytes)
    if let glob = try? Glob(text) { _ = glob.matches(path) }
    guard let pattern = literal(path) else { return }
    let itself = try Glob("/\(pattern)")
    require(itself.matches(path), "a path without meaning matches itself: \(pattern.debugDescription)")
    require(!itself.matches(RelativePath(bytes: path.bytes + [0x78])), "and no longer one")
    try require(Glob("**").matches(path), "every path is everything")
  },
  FuzzedParser(
    "NameTemplate", bytesMax: 512,
    words: [
      "{path}", "{dir}", "{name}", "{stem}", "{ext}", "{date}", "{time}", "{host}", "{seq}", "{seq:9}", "{id}", "{{",
      "}}",
    ],
    texts: [
      "{date}/{stem}-{seq}.{ext}\na/b.mov", "{path}\na", "{{{name}}}\n.hidden", "{seq:0}\na", "{\na", "}{",
      "{dir}/{name}\nx",
      "{ext}{id}\na.b.c", "../{name}\na", "{name}/\na", "a//{name}\na", "{stem}.{ext}\nx.", "..{ext}/{name}\nx",
    ]
  ) { input in
    let (text, path) = halves(input.bytes)
    guard let template = try? NameTemplate(text), !path.bytes.isEmpty else { return }
    for number in [nil, 0, 7, Int64.max, Int64.min] {
      let name = template.name(
        of: NameTemplate.Values(
          path: path, id: FileID(high: 1, low: 2), date: "2026-11-22", time: "051728", host: "cam-1", sequence: number))
      let parts = name.bytes.split(separator: slash, omittingEmptySubsequences: false)
      require(parts.allSatisfy { !$0.isEmpty }, "a name has no empty folder")
      let isSafe = path.components.allSatisfy { !isDots($0) }
      require(!isSafe || parts.allSatisfy { !isDots($0) }, "a name has no folder that stands for another")
      require(!name.bytes.contains(0), "a name is a path")
      let other = NameTemplate.distinguished(name, by: 2)
      require(other != name && other.parent == name.parent, "a distinguished name is another one in the same folder")
    }
  },
]
