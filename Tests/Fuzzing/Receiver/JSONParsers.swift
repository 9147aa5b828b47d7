import ChunkProtocol
import Fuzzing
import Integrity

@testable import ChunkProtocol
@testable import ReceiverCore

private func requireReadBack<Body: Codable & Hashable>(_ type: Body.Type, _ bytes: [UInt8]) throws {
  guard let body = try? WireJSON.decode(type, from: bytes) else { return }
  let again = try WireJSON.decode(type, from: WireJSON.encode(body))
  require(again == body, "\(type) comes back")
}

private let digest = String(repeating: "0a", count: 32)

let openingText =
  #"{"name":"a/b.mov","size":10000000,"chunk_size":4194304,"modified_ns":-5,"mode":420,"content_type":"video/mp4","#
  + #""file_id":"01","revision":7,"nonce":"\#(digest)"}"#
let commitText =
  #"{"size":9,"chunk_count":1,"merkle_root":"\#(digest)","chain_tip":"\#(digest)","name":"a","if_exists":"replace","#
  + #""modified_ns":5,"mode":420}"#

let jsonParsers: [FuzzedParser] = [
  FuzzedParser(
    "WireJSON",
    words: [
      "{\"", "\":", "null", "true", "1e308", "-0", "9223372036854775808", "18446744073709551615", "\\u0000", "\\ud800",
      "\"name\":", "\"size\":", "\"chunk_size\":", "\"mode\":", "\"nonce\":", "\"if_exists\":", "[[", "]]",
    ],
    texts: [
      openingText, commitText, openingText.replacing("10000000", with: "null"), "[1,2]", "[[[[]]]]", "{}", "\"",
      #"{"id":"s","chunk_size":1,"expires_at":2,"encodings":["lz4"]}"#, "{\"a\":1e400}", "\u{feff}{}",
    ]
  ) { input in
    try requireReadBack(SessionRequest.self, input.bytes)
    try requireReadBack(CommitRequest.self, input.bytes)
    try requireReadBack(ChunkIndexRange.self, input.bytes)
    if let request = try? WireJSON.decode(SessionRequest.self, from: input.bytes) {
      require(request.nonceBytes.map { $0.count == 32 } ?? true, "a nonce has 32 bytes")
    }
  }
]
