import Glibc
import TransferModel
import UploadEngine

/// What names and connections mean. Pure.
extension Finding {
  /// Of the resolver's answer.
  static func names(of server: ServerAddress, _ probe: NetworkProbe) -> Finding {
    let count: Finding.Fact
    switch probe.resolution {
    case .found(_, let time):
      let texts = probe.addresses.map(\.text)
      count = Fact(key: "addresses", value: .texts(texts))
      guard texts != [server.host] else {
        return Finding(.names, .ok, "\(server.host) is an address.", facts: [count])
      }
      return Finding(
        .names, .ok, "\(server.host) is \(texts.joined(separator: ", ")) (found in \(time.readable)).", facts: [count])
    case .failed(let code):
      guard code == EAI_NONAME else {
        return Finding(
          .names, .problem, "the address of \(server.host) cannot be found: \(String(cString: gai_strerror(code))).",
          advice: "Check the network of this machine and its name servers: getent hosts \(server.host), and "
            + "/etc/resolv.conf.")
      }
      return Finding(
        .names, .problem, "there is no host \(server.host).",
        advice: "Check the spelling in --to, and what getent hosts \(server.host) says.")
    }
  }

  /// Of a connection to each address.
  static func connection(to server: ServerAddress, _ probe: NetworkProbe) -> Finding {
    let times = probe.addresses.compactMap { address in
      if case .connected(let time) = address.attempt { time } else { nil }
    }
    let facts = [
      Fact(key: "port", value: .number(Int64(server.port))),
      Fact(key: "reachable", value: .number(Int64(times.count))),
      Fact(key: "tried", value: .number(Int64(probe.addresses.count))),
    ]
    let failed = probe.addresses.filter { if case .connected = $0.attempt { false } else { true } }
    guard let fastest = times.min() else { return noConnection(to: server, failed, facts) }
    let found = "port \(server.port) of \(server.host) takes connections (\(fastest.readable))"
    guard let first = failed.first else { return Finding(.connection, .ok, "\(found).", facts: facts) }
    let lost = failed.map { "\($0.text): \($0.attempt.words)" }.joined(separator: "; ")
    // Hosts with addresses of both families are usual, machines with routes for one as well.
    guard !failed.allSatisfy({ $0.attempt.isWithoutRoute }) else {
      return Finding(.connection, .ok, "\(found); from here there is no way to \(first.text).", facts: facts)
    }
    return Finding(
      .connection, .warning, "\(found), but not at every address (\(lost)).",
      advice: "Uploads use those that answer; connecting may take longer. Have the others repaired, or taken out of "
        + "the DNS.",
      facts: facts)
  }

  private static func noConnection(
    to server: ServerAddress, _ failed: [NetworkProbe.Address], _ facts: [Fact]
  ) -> Finding {
    let attempts = failed.map(\.attempt)
    let lost = failed.map { "\($0.text): \($0.attempt.words)" }.joined(separator: "; ")
    let advice =
      if attempts.contains(.failed(errno: ECONNREFUSED)) {
        "Nothing listens at port \(server.port) there. Check the port in --to, and that the server runs."
      } else if attempts.allSatisfy(\.isWithoutRoute) {
        "This machine has no way there. Check its network, its default route (ip route) and a VPN that may be needed."
      } else if attempts.contains(.timedOut) {
        "Nobody answers. Check the address, and whether a firewall on the way drops port \(server.port)."
      } else {
        "Check the network of this machine and its firewall."
      }
    return Finding(
      .connection, .problem, "no connection to port \(server.port) of \(server.host) (\(lost)).", advice: advice,
      facts: facts)
  }

  /// A proxy stands between: it looks up names and makes connections, so what this machine can reach says nothing.
  static func behindProxy(_ check: Check, _ server: ServerAddress) -> Finding {
    Finding(check, .skipped, "not looked at: a proxy makes the connections to \(server.host).")
  }

  /// Whether the proxy opens the way, as the first request through it shows.
  static func proxy(to server: ServerAddress, _ outcome: StepOutcome) -> Finding {
    guard case .refused(let failure) = outcome, failure.kind == .transport(.proxyFailed) else {
      return behindProxy(.connection, server)
    }
    return Finding(
      .connection, .problem, "\(failure.message).",
      advice: "Check the proxy: --proxy and --proxy-auth-file, or https_proxy and all_proxy in the environment. A host "
        + "that is reached without one belongs into --no-proxy.")
  }
}

extension NetworkProbe.Attempt {
  fileprivate var isWithoutRoute: Bool {
    [.failed(errno: ENETUNREACH), .failed(errno: EHOSTUNREACH), .failed(errno: EADDRNOTAVAIL)].contains(self)
  }

  fileprivate var words: String {
    switch self {
    case .connected(let time): "connected in \(time.readable)"
    case .timedOut: "no answer in \(NetworkProbe.timeoutMilliseconds / 1000) s"
    case .failed(let code): systemText(code)
    }
  }
}

/// What errno says, beginning as a part of a sentence.
func systemText(_ code: Int32) -> String {
  let text = strerror(code).map { String(cString: $0) } ?? "error \(code)"
  return text.prefix(1).lowercased() + text.dropFirst()
}

extension Duration {
  /// `3 ms`, `1.5 s`.
  var readable: String {
    let milliseconds = max(0, self / .milliseconds(1))
    guard milliseconds < 1000 else { return "\(JSONWriter.decimal(milliseconds / 1000, 1) ?? "?") s" }
    return milliseconds < 1 ? "under 1 ms" : "\(Int64(milliseconds.rounded())) ms"
  }
}
