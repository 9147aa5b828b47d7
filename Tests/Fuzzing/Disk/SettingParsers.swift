import Fuzzing

@testable import Destinations
@testable import ReceiverCore

let settingParsers: [FuzzedParser] = [
  FuzzedParser(
    "TokenFile", words: ["quota=", "\n", "\r\n", "# ", "../", "/..", "\t", "\u{301}", "\u{2028}"],
    texts: [
      "# who\n\nscanner  token-no-1\n/srv/audio token-no-2 quota=1000 # ten minutes\n\tlab/a\ttoken-no-3 was=x\r\n",
      "a/../../x tok-tok-", "a tok-tok- quota=18446744073709551616", "a tok-tok-\nb tok-tok-", "a tok-t\u{e9}k-tok",
      "a/../\u{301}b tok-tok-", ".. tok-tok-", "#\u{301} x", "a tok-tok",
    ]
  ) { input in
    guard let credentials = try? TokenFile.parse(input.text, base: "/base") else { return }
    var tokens: [[UInt8]] = []
    for credential in credentials {
      guard let token = credential.token else { fatalError("a credential has a token") }
      require(!token.isEmpty && token.utf8.allSatisfy { (0x21...0x7e).contains($0) }, "a token is printable ASCII")
      require(([token] + credential.otherTokens).allSatisfy { $0.utf8.count >= 8 }, "a token that lets in is not short")
      require(!tokens.contains(Array(token.utf8)), "no token stands in the file twice")
      tokens.append(Array(token.utf8))
      let parts = credential.root.utf8.split(separator: UInt8(ascii: "/"))
      require(credential.root.utf8.first == UInt8(ascii: "/"), "a root is absolute")
      require(
        !parts.contains { $0.elementsEqual("..".utf8) }, "no root leaves its base: \(credential.root.debugDescription)")
      require(!credential.root.utf8.contains { $0 == 0 || $0 == 0x0a }, "a root is a path")
    }
  },
  FuzzedParser(
    "S3Profile",
    words: [
      "[default]", "[profile a]", "[a]", "aws_access_key_id", "aws_secret_access_key", "aws_session_token",
      "credential_process", " = ", "\r\n", "# ", "\"Version\":1", "\"AccessKeyId\":\"", "\"Expiration\":\"",
      "2013-05-24T02:00:00+02:00",
    ],
    texts: [
      "[default]\naws_access_key_id = AK\naws_secret_access_key=a=b/c+d\ns3 =\n  nested = no\n[ a ]\ncredential_process = x",
      "[profile a]\nregion = x\ncredential_process = /bin/keys --for \"a b\"\n[default]\ncredential_process = d",
      #"{"Version":1,"AccessKeyId":"k","SecretAccessKey":"s","SessionToken":"t","Expiration":"2013-05-24T02:00:00Z"}"#,
      #"{"Version":1,"AccessKeyId":"k","SecretAccessKey":"s","Expiration":"9999-12-31T23:59:60.999-23:59"}"#,
    ]
  ) { input in
    let text = input.text
    for name in ["default", "a"] {
      for profile in [
        try? S3Profile(name, credentialsFile: text, configurationFile: ""),
        try? S3Profile(name, credentialsFile: "", configurationFile: text),
      ] {
        if let keys = profile?.credentials { requireSound(keys) }
      }
    }
    if let keys = try? S3Credentials(processOutput: input.bytes) {
      requireSound(keys)
      require(
        keys.expiresAtSeconds.map { (-62_300_000_000...253_500_000_000).contains($0) } ?? true,
        "keys end in a year of four digits")
    }
  },
]

/// Keys go into header fields.
private func requireSound(_ keys: S3Credentials) {
  for text in [keys.accessKeyID, keys.sessionToken ?? "x"] {
    require(
      !text.isEmpty && text.utf8.allSatisfy { (0x20...0x7e).contains($0) },
      "a key can stand in a field: \(text.debugDescription)")
  }
}
