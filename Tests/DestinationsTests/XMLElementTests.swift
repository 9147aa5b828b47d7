import Testing

@testable import Destinations

@Suite struct XMLElementTests {
  private func read(_ text: String) -> XMLElement? { XMLElement(Array(text.utf8)) }

  @Test func elements_areReadWithTheirText() {
    let root = read(
      """
       \n<?xml version="1.0" encoding="UTF-8"?>
      <!-- <no/> --><s3:Result xmlns:s3='http://x/"' a="/>">
        <Key>a &amp;&lt;&gt;&quot;&apos;&#228;&#x20AC;</Key><Empty/><Empty />
        <Owner><ID>7</ID></Owner>
      </s3:Result>
      """)
    #expect(root?.name == "Result")
    #expect(root?.child("Key")?.text == "a &<>\"'ä€")
    #expect(root?.children.map(\.name) == ["Key", "Empty", "Empty", "Owner"])
    #expect(root?.child("Owner")?.child("ID")?.text == "7")
    #expect(root?.child("owner") == nil)
  }

  @Test(arguments: [
    "", "x", "<a>", "<a", "<a b='", "</a>", "<a></b>", "<a>&unknown;</a>", "<a>&amp</a>", "<a>&#xD800;</a>",
    "<a>&#99999999999;</a>", "<a/><b/>", "<a/>x", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a><!-- </a>",
    "<a><![CDATA[x]]></a>", "< a/>", "<a><</a>", "<?xml", String(repeating: "<a>", count: 100_000),
  ])
  func whatIsNoSuchDocument_isRefused(text: String) {
    #expect(read(text) == nil)
  }

  @Test func bytesThatAreNoText_areRefused() {
    #expect(XMLElement(Array("<a>".utf8) + [0xff] + Array("</a>".utf8)) == nil)
    #expect(XMLElement([0x3c, 0xff, 0x3e]) == nil)
  }

  @Test func everyCut_isRefused() {
    let whole = Array("<a b='c'><d>e &amp; f</d><!-- g --><h/></a>".utf8)
    for length in 0..<whole.count { #expect(XMLElement(Array(whole.prefix(length))) == nil, "\(length) bytes") }
    #expect(XMLElement(whole) != nil)
  }

  @Test(arguments: ["\"d41d8&cd<98>\"", "&\u{301}<\u{301}>\u{301}\"\u{301}", "&amp;", "a\u{301}&"])
  func escapedText_comesBack(text: String) {
    let element = read("<ETag>\(XMLElement.escape(text))</ETag>")
    #expect(
      element?.text.unicodeScalars.elementsEqual(text.unicodeScalars) == true && element?.children.isEmpty == true)
  }

  @Test func markBeforeACombiningCharacter_isAMark() {
    #expect(read("<a>&\u{301}</a>") == nil && read("<a>&amp\u{301};</a>") == nil)
    #expect(read("<a>&amp;\u{301}</a>")?.text == "&\u{301}")
  }
}
