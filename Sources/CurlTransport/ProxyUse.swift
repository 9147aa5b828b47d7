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
      return entry == "*" || host == name || host.hasSuffix("." + name)
    }
  }
}
