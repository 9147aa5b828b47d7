import ChunkProtocol
import Fuzzing
import TransferModel

@testable import Destinations

private let document = """
  <?xml version="1.0" encoding="UTF-8"?>
  <!-- <no/> --><s3:Result xmlns:s3='http://x/"' a="/>">
    <Key>a &amp;&lt;&gt;&quot;&apos;&#228;&#x20AC;</Key><Empty/><Empty />
    <Owner><ID>7</ID></Owner>
  </s3:Result>
  """
private let refusal =
  "HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nRetry-After: 5\r\n\r\n<?xml version=\"1.0\"?><Error><Code>"
  + "SlowDown</Code><Message>why</Message><Region>eu</Region><MaxSizeAllowed>5</MaxSizeAllowed></Error>"

private func depth(_ element: XMLElement) -> Int { 1 + (element.children.map(depth).max() ?? 0) }

let s3Parsers: [FuzzedParser] = [
  FuzzedParser(
    "XMLElement",
    words: [
      "<?xml", "?>", "<!--", "-->", "<a>", "</a>", "<a/>", "&amp;", "&#x", "&#", ";", "<!DOCTYPE", "='", "\">",
      "<s3:a>",
    ], texts: [document, "<a><b/></a>", "<a>&#xD800;</a>", "<a>&\u{301}</a>", "<a><![CDATA[x]]></a>", "<a><!-- </a>"]
  ) { input in
    if let root = XMLElement(input.bytes) { require(depth(root) <= 17, "a document's depth is bounded") }
    let text = input.text
    let escaped = XMLElement.escape(text)
    let bytes = Array("<a>\(escaped)</a>".utf8)
    guard let element = XMLElement(bytes) else { fatalError("escaped text is text: \(text.debugDescription)") }
    require(element.text.utf8.elementsEqual(text.utf8) && element.children.isEmpty, "escaped text comes back")
  },
  FuzzedParser(
    "S3Query", words: ["%2F", "%25", "+", "&", "="], texts: ["a=b&c", "%C3%A9", "%", "%FF", "uploads&x=1+2"]
  ) { input in
    let text = input.text
    require(
      PercentCoding.decode(PercentCoding.encode(text)).map { $0.utf8.elementsEqual(text.utf8) } ?? false,
      "text comes back")
    if let decoded = PercentCoding.decode(text) {
      let again = PercentCoding.decode(PercentCoding.encode(decoded, keepsSlashes: true))
      require(again?.utf8.elementsEqual(decoded.utf8) ?? false, "what is decoded comes back")
    }
    let items = text.utf8.split(separator: UInt8(ascii: "&")).map { (name: String(Substring($0)), value: "v\(text)") }
    let query = S3Query(items).canonicalText
    require(query.utf8.allSatisfy { (0x21...0x7e).contains($0) }, "a query is plain ASCII")
    require(query.utf8.count(where: { $0 == UInt8(ascii: "&") }) == max(0, items.count - 1), "every item is there")
  },
  FuzzedParser(
    "S3Answer", bytesMax: 4096,
    words: responseWords + [
      "<Error>", "<Code>", "</Code>", "<Message>", "AccessDenied", "EntityTooLarge", "NoSuchUpload",
    ],
    texts: [
      refusal, "HTTP/1.1 301 x\r\nx-amz-bucket-region: eu\u{9b}1\r\n\r\n", "HTTP/1.1 412 x\r\n\r\n",
      refusal.replacing("SlowDown", with: "PermanentRedirect"), refusal.replacing("SlowDown", with: "EntityTooLarge"),
    ]
  ) { input in
    let answer = S3Answer(response(input.bytes))
    requireSound(answer.failure(at: "s3.example.org", region: "eu", renewsCredentials: false))
    _ = (answer.mayMeanPublished, answer.isExpired)
    if let tag = answer.entityTag { require(tag.utf8.count <= 256, "an ETag is short") }
  },
]
