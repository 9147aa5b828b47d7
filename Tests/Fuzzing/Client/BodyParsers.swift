import Fuzzing
import Integrity
import RawStructuredFieldValues
import TransferModel

@testable import ChunkProtocol
@testable import Destinations

private let digest = String(repeating: "0a", count: 32)
private let receipt =
  #"{"chain_tip":"\#(digest)","id":"r1","merkle_root":"\#(digest)","name":"a/b","published_at_ms":99,"size":9}"#

private func answers(_ answers: [BundleAnswer]) -> [UInt8] {
  var bytes: [UInt8] = []
  for answer in answers { answer.append(to: &bytes) }
  return bytes
}

let bodyParsers: [FuzzedParser] = [
  FuzzedParser(
    "BundleAnswer", bytesMax: 4096,
    words: ["HTTP/1.1 ", "201 Created", "\r\n", "\r\n\r\n", "Content-Length: ", "18446744073709551615", "\n"]
  ) {
    let one = BundleAnswer(status: 201, fields: [("Content-Type", "application/json")], body: Array(receipt.utf8))
    return [
      answers([one, BundleAnswer(status: 507, fields: [], body: []), one]), answers([one]).dropLast(),
      Array("HTTP/1.1 200\r\nContent-Length: 9223372036854775807\r\n\r\n".utf8),
    ].map { Array($0) }
  } test: { input in
    guard let read = try? BundleAnswer.read(input.bytes) else { return }
    require(read.count <= ProtocolLimits.bundleFilesMax, "an answer has no more members than a bundle")
    let ofRun = try BundleAnswer.read(input.bytes, membersMax: ProtocolLimits.runChunksMax)
    require(ofRun.map(\.body) == read.map(\.body), "that of a run may have more, and is read likewise")
    let again = try BundleAnswer.read(answers(read))
    require(
      again.map(\.status) == read.map(\.status) && again.map(\.body) == read.map(\.body), "what is written is read")
  },
  FuzzedParser(
    "ReceiptBody",
    words: [
      "{\"chain_tip\":\"", "\",\"id\":\"", "\",\"merkle_root\":\"", "\",\"name\":\"", "\",\"published_at_ms\":",
      ",\"size\":", "}", "\\u0000", "-", "18446744073709551615",
    ],
    texts: [
      receipt, receipt.replacing("a/b", with: "\\\"ü\\u0301"), receipt.replacing(":99", with: ":-0"),
      receipt.replacing(":9}", with: ":09}"),
    ]
  ) { input in
    let decoded = try? WireJSON.decode(ReceiptBody.self, from: input.bytes)
    if let plain = input.bytes.withUnsafeBytes({ ReceiptBody(plainlyWritten: $0) }) {
      require(plain == decoded, "a decoder reads what is plainly written")
      require(plain.name.utf8.elementsEqual(decoded?.name.utf8 ?? "".utf8), "its name is the same byte for byte")
    }
    guard let decoded else { return }
    let text = WireJSON.encode(decoded)
    try require(WireJSON.decode(ReceiptBody.self, from: text) == decoded, "a receipt comes back")
    require(text == WireJSON.encode(AnyEncodable(value: decoded)), "it is written as the encoder does")
  },
  FuzzedParser(
    "JSONReader", bytesMax: 4096,
    words: ["{\"", "\":", "[[", "]]", "\\u", "\\ud83d\\ude00", "null", "true", "false", "1e", "-0", ".5"],
    texts: [
      #"{"error":{"code":7,"message":"quota"},"list":[1,-2.5e3,null,true]}"#, String(repeating: "[", count: 40),
    ]
  ) { input in
    guard let value = JSONReader.value(of: input.bytes) else { return }
    let text = WireJSON.encode(value)
    require(JSONReader.value(of: text).map { WireJSON.encode($0) } == text, "what is read is written, and read again")
  },
  FuzzedParser(
    "Problem",
    words: ["\"type\":\"urn:uploadfs:problem:", "\"missing\":[", "\"limit\":", "\"status\":", "\"detail\":\"", "null"],
    texts: [
      #"{"type":"urn:uploadfs:problem:incomplete","title":"t","status":409,"detail":"d","missing":[1,2],"field":"f"}"#,
      #"{"type":"urn:uploadfs:problem:too-large","limit":18446744073709551615}"#, #"{"type":5,"missing":"x"}"#, "{}",
    ]
  ) { input in
    guard let problem = try? WireJSON.decode(Problem.self, from: input.bytes) else { return }
    try require(WireJSON.decode(Problem.self, from: WireJSON.encode(problem)) == problem, "a problem comes back")
  },
  FuzzedParser(
    "StructuredField", words: ["?1", "?0", ";", "=", "(", ")", ", ", ":YWI=:", "@", "%\"", "\\\"", "*", "max-size="],
    texts: [
      "5", " -12 ", "5;a;b=\"x\\\"\";c=?0", "?1", "?0;x", "1.250", "\"a, b\"", "*tok/en:x", ":YWI=:", "@1659578233",
      "999999999999999", "%\"a%c3%a9\"", "a=1, b=(1 \"x\");q=2 ,c,d=?0;x, a=2,\te=1.5", "\"\\\\\\\"\"", "\"\\\"",
      "max-size=5, min-append-size=2;x, other=\"y\"",
    ]
  ) { input in
    // As texts: the library takes 1.20 and 1.2 for two numbers, and writes them as one.
    if let item = StructuredField.item(input.text) {
      var serializer = StructuredFieldValueSerializer()
      let text = try serializer.writeItemFieldValue(Item(bareItem: item, parameters: [:]))
      guard let again = StructuredField.item(String(decoding: text, as: UTF8.self)) else { fatalError("it is no item") }
      try require(
        serializer.writeItemFieldValue(Item(bareItem: again, parameters: [:])) == text, "an item comes back")
    }
    if let members = StructuredField.dictionary(input.text) {
      var serializer = StructuredFieldValueSerializer()
      let text = try serializer.writeDictionaryFieldValue(members)
      guard let again = StructuredField.dictionary(String(decoding: text, as: UTF8.self)) else { return }
      try require(serializer.writeDictionaryFieldValue(again) == text, "a dictionary comes back")
    }
  },
]

/// A value that only the encoder writes.
private struct AnyEncodable<Value: Encodable>: Encodable {
  let value: Value

  func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
}
