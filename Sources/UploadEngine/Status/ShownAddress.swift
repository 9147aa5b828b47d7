import Integrity

/// How an id of the server's is shown in status and log.
///
/// At some servers an upload's address is all that one needs to read it, to change it or to take it away. Such an id is shown as a
/// digest, by which it can be recognised and not be used; the resume record and the catalog hold it as it is.
enum ShownAddress {
  /// The id itself, or the digest of the address that it is: from the path on, which is the same whichever way leads to the server.
  static func of(_ id: String) -> String {
    guard id.contains("/") else { return id }
    var address = id[...]
    if let mark = id.firstRange(of: "://") {
      address = id[mark.upperBound...]
      address = address[(address.firstIndex(of: "/") ?? address.startIndex)...]
    }
    return "sha256:" + Hex.encode(sha256(Array(address.utf8)))
  }
}
