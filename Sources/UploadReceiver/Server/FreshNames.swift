import Integrity

/// Random names for what comes of requests: 32 hexadecimal digits each.
struct FreshNames {
  private static let nameBytes = 16

  let texts: [String]

  /// So many names; nil when the system has no random bytes.
  init?(count: Int) {
    guard let bytes = try? SecureRandom.bytes(count * FreshNames.nameBytes) else { return nil }
    texts = (0..<count).map { index in
      Hex.encode(Array(bytes[index * FreshNames.nameBytes..<(index + 1) * FreshNames.nameBytes]))
    }
  }
}
