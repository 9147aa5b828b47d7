/// Which receivers have answered at one address. Each has a random name from its start to its end. Another name may be a restart; a
/// name that comes again after another one is a second receiver: neither knows the uploads of the other.
struct ReceiverInstances: Sendable {
  /// So many are remembered.
  static let namesMax = 16
  private static let nameBytesMax = 64

  private var last: String?
  private var former: [String] = []
  private var isTold = false

  /// The name in a header field; nil for what is none.
  static func name(in value: String) -> String? {
    let isName =
      !value.isEmpty && value.utf8.count <= nameBytesMax && value.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    return isName ? value : nil
  }

  /// Takes note of an answer; true with the first one that shows that there are several.
  mutating func hear(_ name: String) -> Bool {
    guard name != last else { return false }
    if former.contains(name), !isTold {
      isTold = true
      return true
    }
    if let last {
      former.append(last)
      if former.count > ReceiverInstances.namesMax { former.removeFirst() }
    }
    last = name
    return false
  }
}
