import Integrity

/// How an id of the server's is shown in status and log.
///
/// At some servers an upload's address is all that one needs to read it, to change it or to take it away. Such an id is shown as a
/// digest, by which it can be recognised and not be used; the resume record and the catalog hold it as it is.
enum ShownAddress {
  /// The id itself, or the digest of the address that it is: from the path on, which is the same whichever way leads to the server.
  static func of(_ id: String) -> String {
    let slash = UInt8(ascii: "/")
    guard id.utf8.contains(slash) else { return id }
    var address = Array(id.utf8)[...]
    if let mark = address.firstRange(of: Array("://".utf8)) {
      address = address[mark.upperBound...]
      address = address[(address.firstIndex(of: slash) ?? address.startIndex)...]
    }
    return "sha256:" + Hex.encode(sha256(Array(address)))
  }
}
