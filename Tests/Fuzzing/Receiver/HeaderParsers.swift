import ChunkProtocol
import Fuzzing
import Integrity

@testable import ChunkProtocol
@testable import ReceiverCore

/// Lines of `Name: value` as fields.
func fields(_ text: String) -> [(name: String, value: String)] {
  text.utf8.split(separator: UInt8(ascii: "\n")).map { line in
    guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return ("", String(Substring(line))) }
    let value = line[line.index(after: colon)...].drop { $0 == UInt8(ascii: " ") }
    return (String(Substring(line[..<colon])), String(Substring(value)))
  }
}

private func text(_ fields: [(name: String, value: String)]) -> String {
  fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
}

private let chunk = ChunkHeaders(
  sha256: sha256([]), crc32c: 0xab_cdef, sizeBytes: 4_194_304, encoding: .lz4, mac: sha256([1]).bytes,
  contentSHA256: sha256([2]))

let chunkHeaderText = text(chunk.fields)
let fileHeaderText =
  "Idempotency-Key: \"k\\\"1\\\\\"\nX-Chunk-Nonce: \(Hex.encode(sha256([3])))\nX-File-Modified-Ns: -5\nX-File-Mode: 416"
  + "\nX-If-Exists: fail\nX-File-Id: f"

let headerParsers: [FuzzedParser] = [
  FuzzedParser(
    "ChunkHeaders",
    words: [
      "X-Chunk-SHA256: ", "X-Chunk-CRC32C: ", "X-Chunk-Size: ", "X-Chunk-Encoding: ", "X-Chunk-HMAC: ",
      "Content-Digest: ", "sha-256=:", "identity", "lz4", "zstd", ";stride=", ";difference=", "Idempotency-Key: \"",
      "X-Chunk-Nonce: ",
      "X-File-Modified-Ns: ", "X-File-Mode: ", "X-File-Id: ", "X-If-Exists: ", "replace", "fail", "\n",
      "9223372036854775807", "-9223372036854775808", "18446744073709551615",
    ],
    texts: [
      chunkHeaderText, fileHeaderText, "\(chunkHeaderText)\n\(fileHeaderText)", "X-Chunk-Size: +1",
      chunkHeaderText.split(separator: "lz4").joined(separator: "zstd;stride=12;difference=4"),
    ]
  ) { input in
    let request = WireRequest(method: "PUT", target: "/", fields: fields(input.text))
    if let headers = try? ChunkHeaders(reading: request.field) {
      let again = try ChunkHeaders(reading: WireRequest(method: "PUT", target: "/", fields: headers.fields).field)
      require(again == headers, "a chunk's fields come back")
    }
    if let headers = try? FileHeaders(reading: request.field) {
      require(headers.mode <= 0o7777 && headers.nonce.count == 32, "a file's fields are within their bounds")
      let again = try FileHeaders(reading: WireRequest(method: "PUT", target: "/", fields: headers.fields).field)
      require(again == headers, "a file's fields come back")
    }
  },
  FuzzedParser(
    "IdempotencyKey", bytesMax: 600, words: ["\"", "\\\"", "\\\\"],
    texts: ["\"abc-1\"", "\"a\\\"b\\\\c\"", "bare", "\"", "\"\"", "\"a\\b\"", "\"é\""]
  ) { input in
    guard let key = IdempotencyKey(headerValue: input.text) else { return }
    require((1...255).contains(key.text.utf8.count), "a key has 1 to 255 bytes")
    require(IdempotencyKey(headerValue: key.headerValue) == key, "a key comes back")
  },
  FuzzedParser(
    "ContentDigest", words: ["sha-256=:", "sha-512=:", ":, ", "="],
    texts: [
      ContentDigest.headerValue(sha256: sha256([])),
      "sha-512=:AAAA:, \(ContentDigest.headerValue(sha256: sha256([7])))",
      "sha-256=:AAAA:", "md5=:x:", "sha-256", "sha-256=:\u{301}:",
    ]
  ) { input in
    guard case .sha256(let digest) = ContentDigest.read(input.text) else { return }
    require(ContentDigest.read(ContentDigest.headerValue(sha256: digest)) == .sha256(digest), "a digest comes back")
  },
  FuzzedParser(
    "DecimalText", bytesMax: 64, words: ["18446744073709551615", "9223372036854775808"],
    texts: ["0", "00", "-0", "-5", "18446744073709551616", "٣", "+1", "-9223372036854775808"]
  ) { input in
    let text = input.text
    if let number = DecimalText.unsigned(text) { require(String(number) == text, "one number has one text") }
    if let number = DecimalText.signed(text) {
      require(String(number) == text || text == "-0", "one signed number has one text")
    }
  },
  FuzzedParser(
    "Base64", words: ["=", "=="], texts: ["", "YQ==", "YWI=", "YWJj", "YQ=a", "YR==", "é==="]
  ) { input in
    if let bytes = Base64.decode(input.text) { require(Base64.encode(bytes) == input.text, "bytes have one text") }
    require(Base64.decode(Base64.encode(input.bytes)) == input.bytes, "bytes come back from base64")
    if let bytes = Hex.decode(input.text) { require(Hex.encode(bytes) == input.text.lowercased(), "digits come back") }
    require(Hex.decode(Hex.encode(input.bytes)) == input.bytes, "bytes come back from digits")
  },
]
