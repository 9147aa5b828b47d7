/// What is wrong with a bundle or a run, or with the answer to one.
public enum BundleViolation: Error, Hashable, Sendable, CustomStringConvertible {
  /// A head cannot be read; says why.
  case malformed(String)
  /// It ends within a member, or holds none.
  case brokenOff
  /// More members than ``BundleBounds/membersMax``.
  case tooManyMembers
  /// A member's head is longer than ``ProtocolLimits/bundleHeadBytesMax``.
  case headTooLong
  /// The members' plain bytes are more than ``BundleBounds/bytesMax``.
  case tooManyBytes

  /// What is wrong, for people.
  public var description: String {
    switch self {
    case .malformed(let reason): reason
    case .brokenOff: "the body ends within a member, or holds none"
    case .tooManyMembers: "there are more members than one request may carry"
    case .headTooLong: "a member's head has at most \(ProtocolLimits.bundleHeadBytesMax) bytes"
    case .tooManyBytes: "the members have more bytes together than one request may carry"
    }
  }
}

/// The head of a bundle's or a run's member: the PUT request that would send this file or chunk alone.
public struct BundleMemberHead: Sendable {
  /// The request's target, percent-encoded: ``ProtocolPath/file(name:)`` or ``ProtocolPath/chunk(id:index:)``.
  public var target: String
  /// The request's header fields, without Authorization.
  public var fields: [(name: String, value: String)]

  /// A head with this target and these fields.
  public init(target: String, fields: [(name: String, value: String)]) {
    self.target = target
    self.fields = fields
  }

  /// The head as it is sent, with its Content-Length and the empty line; the body's bytes follow, and nothing between two
  /// members.
  public func encode(contentLength: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(768)
    MessageHead.append(
      startLine: BundleMemberHead.method + target + BundleMemberHead.version, fields: fields,
      contentLength: contentLength, to: &bytes)
    return bytes
  }

  private static let method = "PUT "
  private static let version = " HTTP/1.1"

  /// Reads a head with its empty line.
  static func read(
    _ bytes: UnsafeRawBufferPointer
  ) throws(BundleViolation) -> (head: BundleMemberHead, contentLength: UInt64) {
    let message = try MessageHead(bytes)
    let line = message.startLine
    guard line.hasPrefix(method), line.hasSuffix(version), line.utf8.count > method.utf8.count + version.utf8.count
    else { throw .malformed("a member begins with PUT, a target and HTTP/1.1") }
    let target = line.dropFirst(method.utf8.count).dropLast(version.utf8.count)
    guard target.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
      throw .malformed("a member's target is printable ASCII without spaces")
    }
    return (BundleMemberHead(target: String(target), fields: message.fields), message.contentLength)
  }
}
