import Glibc
import TransferModel

/// Whether a proxy is used: by the settings, or by the environment's variables as libcurl reads them.
public struct ProxyUse: Sendable {
  private let proxy: CurlProxy
  private let environment: [String: String]

  /// As libcurl would decide with this environment.
  public init(_ proxy: CurlProxy, _ environment: [String: String]) {
    self.proxy = proxy
    self.environment = environment
  }

  /// In this process.
  init(_ proxy: CurlProxy) {
    var environment: [String: String] = [:]
    for name in Self.names(isEncrypted: true) + Self.names(isEncrypted: false) + ["no_proxy", "NO_PROXY"] {
      if let value = getenv(name) { environment[name] = String(cString: value) }
    }
    self.init(proxy, environment)
  }

  /// Whether connections to a host go through a proxy.
  public func holds(forHost host: String, isEncrypted: Bool) -> Bool {
    address(forHost: host, isEncrypted: isEncrypted) != nil
  }

  /// The proxy's address as it was given, without user name and password; nil where there is none.
  func address(forHost host: String, isEncrypted: Bool) -> String? {
    guard !isException(host) else { return nil }
    if let url = proxy.url { return url }
    let found = Self.names(isEncrypted: isEncrypted).lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    guard !HostName.isLoopback(host), let found else { return nil }
    guard let user = found.lastIndex(of: "@") else { return found }
    let scheme = found.utf8.firstRange(of: "://".utf8).map { String(found[..<$0.upperBound]) } ?? ""
    return scheme + found[found.index(after: user)...]
  }

  // HTTP_PROXY is left out on purpose: in CGI programs a client's header has that name.
  private static func names(isEncrypted: Bool) -> [String] {
    (isEncrypted ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy"]) + ["all_proxy", "ALL_PROXY"]
  }

  private func isException(_ host: String) -> Bool {
    let list = proxy.exceptions ?? environment["no_proxy"] ?? environment["NO_PROXY"] ?? ""
    return list.split { $0 == "," || $0 == " " }.contains { entry in
      let name = entry.drop { $0 == "." }.lowercased()
      return entry == "*" || host == name || host.hasSuffix("." + name) || Self.isNetwork(name, of: host)
    }
  }

  /// `10.0.0.0/8` and `2001:db8::/32`, of hosts that are addresses.
  private static func isNetwork(_ entry: String, of host: String) -> Bool {
    let parts = entry.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let bits = Int(parts[1]), let network = addressBytes(String(parts[0])),
      let address = addressBytes(host), address.count == network.count, (0...address.count * 8).contains(bits)
    else { return false }
    return address.indices.allSatisfy { index in
      let mask = UInt8(truncatingIfNeeded: 0xff00 >> min(8, max(0, bits - index * 8)))
      return address[index] & mask == network[index] & mask
    }
  }

  private static func addressBytes(_ text: String) -> [UInt8]? {
    for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
      var bytes = [UInt8](repeating: 0, count: count)
      if inet_pton(family, text, &bytes) == 1 { return bytes }
    }
    return nil
  }
}
