import Fuzzing

@testable import ChunkProtocol

let pathParsers: [FuzzedParser] = [
  FuzzedParser(
    "ProtocolPath", words: ["/v1/", "/uploads/", "/chunks/", "/commit", "/files/", "%2F", "%", "?digests=1&durable=1"],
    texts: [
      "/v1/", "/v1", "/v1/capabilities", "/v1/uploads/abc-_9?digests=1&durable=1", "/v1/uploads/a/chunks/4294967295",
      "/v1/uploads/a/commit", "/v1/files/a%2Fb%20c/%C3%A9?x", "/v1/files", "/v1/stats", "/metrics", "/v1/files/%FF",
    ]
  ) { input in
    let target = input.text
    _ = (ProtocolPath.wantsDigests(target: target), ProtocolPath.wantsDurability(target: target))
    guard let path = ProtocolPath(target: target) else { return }
    let text = path.text
    require(text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "?") }, "a path is plain ASCII")
    guard let again = ProtocolPath(target: text) else { fatalError("\(text) is no path") }
    require(again.text == text, "a path comes back")
    if case .file(let name) = path, case .file(let second) = again {
      require(name.utf8.elementsEqual(second.utf8), "a name comes back")
    }
  },
  FuzzedParser(
    "PublishedName", words: ["%~", "..", "/", ".tar.gz", "%2E", "\u{301}", "\u{85}"],
    texts: [
      "a/b c.mov", "../x", "day 1/scan%.mov", "\u{1}\u{85}\u{7f}", "%~0123456789abcdef", "//a//", ".", "e\u{301}/é",
      String(repeating: "x", count: 300) + ".tar.gz", String(repeating: "long folder/", count: 120) + "file",
    ]
  ) { input in
    _ = PublishedName.validate(input.text)
    let bytes = input.bytes
    let parts = PublishedName.components(of: input.text)
    require(!parts.contains { $0.isEmpty || $0.utf8.contains(UInt8(ascii: "/")) }, "a component holds no slash")
    let name = PublishedName.encode(bytes)
    require(PublishedName.validate(name) == nil, "an encoded name is acceptable")
    guard !name.contains("%~") else { return }
    let plain = bytes.split(separator: UInt8(ascii: "/")).joined(separator: [UInt8(ascii: "/")])
    require(
      PublishedName.decode(name).map { $0.elementsEqual(plain) } ?? false, "a name that is not shortened comes back")
  },
]
