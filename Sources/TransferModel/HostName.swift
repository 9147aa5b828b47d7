/// What the name of a host says, without a resolver.
public enum HostName {
  /// Whether it is this machine: `localhost`, a name below it (RFC 6761, section 6.3), 127.0.0.0/8 or ::1.
  public static func isLoopback(_ host: String) -> Bool {
    if isLocalhost(host) || host == "::1" { return true }
    return host.hasPrefix("127.") && isIPv4(host)
  }

  /// `localhost`, or a name below it. libcurl does not ask the resolver for these, which may know only the first.
  public static func isLocalhost(_ host: String) -> Bool { host == "localhost" || host.hasSuffix(".localhost") }

  /// Whether it is an address and no name.
  public static func isAddress(_ host: String) -> Bool { host.contains(":") || isIPv4(host) }

  private static func isIPv4(_ host: String) -> Bool {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
  }
}
