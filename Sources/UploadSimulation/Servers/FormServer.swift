import ChunkProtocol
import TransferModel

/// A form that takes one file with each POST, and its path in a field.
struct FormServer: ForeignProtocol {
  var publications: [ForeignPublication] = []
  private var count = 0

  var leftovers: [String] { [] }

  init() {}

  mutating func expire() {}
  mutating func broke(_ request: ForeignRequest) {}

  mutating func answer(_ request: ForeignRequest) -> HTTPResponse {
    guard request.method == "POST" else { return HTTPResponse(status: 200) }
    guard let type = request.field("content-type"), let mark = type.firstRange(of: "boundary=") else {
      return HTTPResponse(status: 400)
    }
    let boundary = Array("--\(type[mark.upperBound...])".utf8)
    var path: [UInt8] = []
    var file: [UInt8]?
    for part in parts(of: request.body, boundary) {
      guard let end = part.firstRange(of: Array("\r\n\r\n".utf8)) else { continue }
      let head = String(decoding: part[..<end.lowerBound], as: UTF8.self)
      let content = Array(part[end.upperBound...].dropLast(2))
      if head.contains("filename=") { file = content } else if head.contains("name=\"path\"") { path = content }
    }
    guard let file, !path.isEmpty else { return HTTPResponse(status: 422) }
    count += 1
    publications.append(ForeignPublication(name: PublishedName.encode(path), bytes: file, receipt: "\(count)"))
    return HTTPResponse(
      status: 201, headers: [HTTPHeader("content-type", "application/json")], body: Array("{\"id\":\(count)}".utf8))
  }

  /// The parts between the boundaries.
  private func parts(of body: [UInt8], _ boundary: [UInt8]) -> [ArraySlice<UInt8>] {
    let places = body.ranges(of: boundary)
    return zip(places, places.dropFirst()).map { body[$0.upperBound..<$1.lowerBound] }
  }
}

extension String {
  /// The bytes that %XX encode.
  var percentDecoded: [UInt8] {
    var bytes: [UInt8] = []
    var rest = Array(utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%"), let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
      else {
        bytes.append(byte)
        continue
      }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    return bytes
  }
}
