/// What a page for people calls itself.
package enum PageTitle {
  private static let bytesMax = 4096

  /// The title of an HTML page, as it can stand in a message; nil where its first 4 KiB hold none.
  package static func beginning(of page: [UInt8]) -> String? {
    let bytes = Array(page.prefix(bytesMax))
    let lowered = bytes.map { (0x41...0x5a).contains($0) ? $0 + 0x20 : $0 }
    guard let begin = lowered.firstRange(of: Array("<title>".utf8))?.upperBound,
      let end = lowered[begin...].firstRange(of: Array("</title>".utf8))?.lowerBound
    else { return nil }
    let title = String(decoding: bytes[begin..<end], as: UTF8.self).split { $0.isWhitespace }.joined(separator: " ")
    return title.isEmpty ? nil : PrintableText.beginning(of: title)
  }
}
