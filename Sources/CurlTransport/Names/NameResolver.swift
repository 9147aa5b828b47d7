// The headers of sockets belong to whichever of both modules is loaded first.
import CCurl
import Glibc
import Threads

/// Asks the system's resolver, which can take any time: each query has a thread of its own, and the transport waits for none of them.
enum NameResolver {
  /// Asks for the addresses of each family. `onAnswer` is called for each, on the question's thread; with none where there are none, or
  /// where the system has no thread left.
  static func resolve(_ question: NameCache.Question, onAnswer: @escaping @Sendable (ResolvedName) -> Void) {
    let server = question.server
    for family in question.families {
      let answer = { @Sendable addresses in
        onAnswer(ResolvedName(server: server, family: family, addresses: addresses, question: question.number))
      }
      let thread = NamedThread("resolver", .answering) { answer(addresses(of: server, family)) }
      guard let thread else {
        answer([])
        continue
      }
      thread.detach()
    }
  }

  private static func addresses(of server: NamedServer, _ family: SocketAddress.Family) -> [SocketAddress] {
    var hints = addrinfo()
    hints.ai_family = family.number
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICSERV
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(server.host, String(server.port), &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    var found: [SocketAddress] = []
    var entry = list
    while let info = entry?.pointee {
      if let system = info.ai_addr, let address = SocketAddress(system, byteCount: Int(info.ai_addrlen)),
        !found.contains(address)
      {
        found.append(address)
      }
      entry = info.ai_next
    }
    return found
  }
}

/// What the resolver says of a name, in one family.
struct ResolvedName: Sendable {
  var server: NamedServer
  var family: SocketAddress.Family
  /// None where the name has none, and where nothing could be found out.
  var addresses: [SocketAddress]
  /// What was asked; see ``NameCache/Question``.
  var question: UInt64
}
