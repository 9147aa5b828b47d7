import ChunkProtocol
import Testing

/// A bundle's member, as a test sends it or has read it.
struct Member: Hashable {
  var target = "/v1/files/a"
  var fields = [Field("X-Chunk-Size", "0")]
  var body: [UInt8] = []

  struct Field: Hashable {
    var name: String
    var value: String

    init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  var bytes: [UInt8] {
    BundleMemberHead(target: target, fields: fields.map { ($0.name, $0.value) }).encode(contentLength: body.count)
      + body
  }

  /// As a reader shows it: with its length.
  var asRead: Member {
    var member = self
    member.fields.append(Field("Content-Length", String(body.count)))
    return member
  }

  /// Three of them, one without a body, one whose body looks like a member.
  static let several = [
    Member(
      target: "/v1/files/a%20b", fields: [Field("X-Chunk-Size", "5"), Field("X-File-Id", "x: y")], body: [1, 2, 3]),
    Member(),
    Member(fields: [], body: Member().bytes),
  ]
}

extension BundleReader {
  /// Everything in these pieces, to the bundle's end.
  static func readAll(_ pieces: [[UInt8]], filesMax: Int = 64, bytesMax: Int = 4 << 20) throws(BundleViolation)
    -> [Member]
  {
    var reader = BundleReader(BundleBounds(membersMax: filesMax, bytesMax: bytesMax))
    var members: [Member] = []
    var open: (member: Member, contentLength: Int)?
    for piece in pieces {
      try piece.withUnsafeBufferPointer { (bytes) throws(BundleViolation) in
        var rest = UnsafeRawBufferPointer(bytes)
        while let event = try reader.next(&rest) {
          switch event {
          case .head(let head, let contentLength):
            #expect(open == nil)
            let fields = head.fields.map { Member.Field($0.name, $0.value) }
            open = (Member(target: head.target, fields: fields), contentLength)
          case .body(let part): open?.member.body += part
          case .end:
            #expect(open?.member.body.count == open?.contentLength)
            if let member = open?.member { members.append(member) }
            open = nil
          }
        }
        #expect(rest.isEmpty)
      }
    }
    try reader.finish()
    return members
  }
}
