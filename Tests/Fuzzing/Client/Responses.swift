import Fuzzing
import TransferModel

@testable import CurlTransport

/// A response as a server sends it, read as the transport does: lines up to the empty one, then the body.
func response(_ bytes: some Collection<UInt8>) -> HTTPResponse {
  var head = ResponseHead()
  var rest = Array(bytes)[...]
  while !head.isComplete, let end = rest.firstIndex(of: 0x0a) {
    guard rest[...end].withUnsafeBytes({ head.consume($0) }) else { break }
    rest = rest[(end + 1)...]
  }
  return HTTPResponse(status: head.status, headers: head.headers, body: Array(rest))
}

/// Several of them, with a line between two.
func responses(_ bytes: [UInt8]) -> [HTTPResponse] {
  bytes.split(separator: Array(nextResponse.utf8), maxSplits: 7, omittingEmptySubsequences: false).map { response($0) }
}

let nextResponse = "\n====\n"

/// Fields that mean something to one of the destinations.
let responseWords = [
  "HTTP/1.1 ", "200 OK\r\n", "201 Created\r\n", "204 No Content\r\n", "HTTP/2 404\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
  "\r\n\r\n", nextResponse, "Content-Length: ", "Content-Type: application/json\r\n", "text/plain",
  "application/problem+json", "Retry-After: ", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "Location: ", "ETag: \"",
  "9223372036854775807", "18446744073709551615", "-1",
]

/// What is said to people is one line that moves no cursor.
func requirePrintable(_ text: String, _ what: String) {
  require(
    text.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) },
    "\(what) holds no control character: \(text.debugDescription)")
}

func requireSound(_ failure: StepFailure) {
  requirePrintable(failure.message, "a failure's message")
  require(failure.message.utf8.count < 4096, "a failure's message is short")
  if let pause = failure.retryAfter {
    require((Duration.zero...Duration.seconds(86_400)).contains(pause), "a pause is bounded")
  }
}
