// The headers of sockets belong to whichever of both modules is loaded first.
import CCurl
import Glibc

/// An IP address with a port, as the system's calls take it.
struct SocketAddress: Hashable, Sendable {
  /// A version of IP.
  enum Family: Hashable, Sendable, CaseIterable {
    case ipv6
    case ipv4

    var number: Int32 { self == .ipv6 ? AF_INET6 : AF_INET }

    var other: Family { self == .ipv6 ? .ipv4 : .ipv6 }
  }

  let family: Family
  /// A `sockaddr_in` or `sockaddr_in6`.
  private let bytes: [UInt8]

  /// Nil for another family, and for an address that counts on one link alone: libcurl takes no zone in a list of addresses
  /// (CURLOPT_RESOLVE), and refuses the transfer.
  init?(_ address: UnsafePointer<sockaddr>, byteCount: Int) {
    guard let family = Family.allCases.first(where: { $0.number == Int32(address.pointee.sa_family) }) else {
      return nil
    }
    if family == .ipv6, byteCount >= MemoryLayout<sockaddr_in6>.size {
      guard UnsafeRawPointer(address).load(as: sockaddr_in6.self).sin6_scope_id == 0 else { return nil }
    }
    self.family = family
    bytes = Array(UnsafeRawBufferPointer(start: address, count: byteCount))
  }

  /// Calls with the address as the system takes it.
  func withSystemAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result? {
    bytes.withUnsafeBytes { bytes in
      bytes.withMemoryRebound(to: sockaddr.self) { address in
        address.baseAddress.map { body($0, socklen_t(bytes.count)) }
      }
    }
  }

  /// The address alone, without brackets and port: `192.0.2.1`, `2001:db8::1`.
  var hostText: String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { text in
      guard let start = text.baseAddress else { return "" }
      let code = withSystemAddress {
        getnameinfo($0, $1, start, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
      }
      return code == 0 ? String(cString: start) : ""
    }
  }
}
