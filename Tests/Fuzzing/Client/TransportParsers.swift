import Fuzzing
import Quantities
import TransferModel

@testable import CurlTransport
@testable import Destinations

private let certificate = [
  "Subject:CN = upload.example.org", "Issuer:C = XX, CN = Authority: 1", "Start date:Nov  2 00:00:00 2026 GMT",
  "Expire date:Feb 29 23:59:59 2028 GMT",
  "X509v3 Subject Alternative Name:DNS:upload.example.org, DNS:*.Example.org, IP Address:127.0.0.1, "
    + "IP Address:2001:DB8:0:0:0:0:0:7",
].joined(separator: "\n")

let transportParsers: [FuzzedParser] = [
  FuzzedParser(
    "ResponseHead", words: responseWords,
    texts: [
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n folded\r\nX-A: c\r\n\r\nhello",
      "HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/2 201 \r\netag: \"x\"\r\n\r\nTrailer: z\r\n",
      "HTTP/1.1 99 x\r\n\r\n", "no head", " folded\r\n", ": v\r\n:\r\n",
    ]
  ) { input in
    var head = ResponseHead()
    var isRefused = false
    for line in input.bytes.split(separator: 0x0a, omittingEmptySubsequences: false) {
      let wasComplete = head.isComplete
      isRefused = !Array(line + [0x0a]).withUnsafeBytes { head.consume($0) }
      if isRefused { break }
      require((0...999).contains(head.status), "a status has three digits")
      let bytes = head.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
      // What is no UTF-8 becomes three bytes each.
      require(bytes <= 3 * ResponseHead.bytesMax, "a head is bounded")
      let text = line.drop { $0 == 0x20 || (0x09...0x0d).contains($0) }
      if wasComplete, !text.starts(with: Array("HTTP/".utf8)) { require(head.isComplete, "trailers change nothing") }
    }
    for field in head.headers {
      require(!field.name.utf8.contains { (0x41...0x5a).contains($0) }, "names are lower case")
    }
    _ = head.contentLength
  },
  // What ServerProbe shows of a server: the certificate's lines, and the clock in the head of its answer.
  FuzzedParser(
    "PeerCertificate",
    words: [
      "Subject:", "Issuer:", "Start date:", "Expire date:", "X509v3 Subject Alternative Name:", "DNS:", "IP Address:",
      "*.", "::", ", ", " GMT", "\n", "Feb 29 23:59:60 2028 GMT",
    ], texts: [certificate, "Subject:a\nIssuer:a", "Start date:soon", "X509v3 Subject Alternative Name:IP Address:::"]
  ) { input in
    let seen = PeerCertificate(lines: input.text.utf8.split(separator: 0x0a).map { String(Substring($0)) })
    for host in ["upload.example.org", "a.example.org", "127.0.0.1", "2001:db8::7", "::", ""] { _ = seen.covers(host) }
    for name in seen.names where name.hasPrefix("DNS:") && !name.contains("*") {
      require(seen.covers(String(name.dropFirst(4))), "a certificate covers its names")
    }
    _ = seen.isSelfSigned
  },
  FuzzedParser(
    "RetryAfter", bytesMax: 512,
    words: ["Retry-After: ", "Date: ", "Sun, 06 Nov 1994 08:49:37 GMT", " GMT", "9999", "0000", "31 Dec"],
    texts: [
      "HTTP/1.1 503 x\r\nRetry-After: 120\r\n\r\n",
      "HTTP/1.1 503 x\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\nDate: Sun, 06 Nov 1994 08:48:37 GMT\r\n\r\n",
      "HTTP/1.1 503 x\r\nRetry-After: 99999999999999999999\r\n\r\n",
    ]
  ) { input in
    let answer = response(input.bytes)
    if let pause = RetryAfter.duration(of: answer) {
      require((Duration.zero...Duration.seconds(86_400)).contains(pause), "a pause is bounded")
    }
    for date in [answer.header("date"), input.text].compactMap({ $0.flatMap(HTTPDate.seconds) }) {
      require((-62_200_000_000...253_500_000_000).contains(date), "a date has a year of four digits")
    }
    if let seconds = Timestamp.seconds(input.text) {
      require((-62_300_000_000...253_500_000_000).contains(seconds), "a time has a year of four digits")
    }
    if let seconds = CertificateTime.seconds(input.text) {
      require((-62_300_000_000...253_500_000_000).contains(seconds), "a certificate's time has a year of four digits")
    }
  },
]
