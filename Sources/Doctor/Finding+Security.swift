import CurlTransport
import Quantities
import TransferModel
import UploadEngine

/// What a server shows of its TLS, to clients that verify it and to probes that do not.
struct SecurityProbe: Sendable {
  /// As uploads connect, but believing everything.
  var current: ServerProbe
  /// With all that uploads verify, where nothing of it had ended them.
  var verified: ServerProbe?
  /// With older versions of TLS, where that failed.
  var older: ServerProbe?
  /// Without TLS, where that failed as well; with it, where an address without TLS does not answer.
  var other: ServerProbe?
  /// What became of a request that checks; nil when it was answered.
  var refusal: TransportError?
  /// This machine's clock, seconds since 1970.
  var nowSeconds: Int64
  /// The server's clock, likewise; nil when it does not say.
  var serverSeconds: Int64?
}

/// What a connection's security means. Pure.
extension Finding {
  /// Certificates that end within so many days are worth a word.
  private static let daysMin: Int64 = 14

  static func security(of server: ServerAddress, _ probe: SecurityProbe) -> Finding {
    guard server.isEncrypted else { return unencrypted(server, probe) }
    guard let certificate = probe.current.certificates.first else { return noHandshake(server, probe) }
    let facts = certificateFacts(certificate)
    guard let refusal = probe.refusal, refusal.kind.isOfHandshake, refusal.kind != .tlsFailed else {
      return accepted(certificate, facts, probe)
    }
    if let advice = adviceOfTrust(refusal.kind) {
      return Finding(.tls, .problem, "\(refusal.message).", advice: advice, facts: facts)
    }
    return refused(certificate, facts, server, probe, refusal)
  }

  /// Nil where the certificate itself is at fault.
  private static func adviceOfTrust(_ kind: TransportError.Kind) -> String? {
    switch kind {
    case .pinMismatch:
      "If the server's keys were changed on purpose, give the new ones with --pin; else another server answers there."
    case .transparencyRefused:
      "Have a certificate made that logs of two operators have vouched for. One of an authority of your own is exempt with --ca FILE "
        + "and --transparency public-only."
    case .certificateRevoked: "Have a new certificate made, and find out why this one was revoked."
    case .stapleMissing:
      "Turn OCSP stapling on at the server, and see that it can reach its authority's OCSP responder."
    default: nil
    }
  }

  private static func accepted(_ certificate: PeerCertificate, _ facts: [Fact], _ probe: SecurityProbe) -> Finding {
    let shown = certificate.names.prefix(3).map { $0.split(separator: ":", maxSplits: 1).last.map(String.init) ?? $0 }
    let names = shown.joined(separator: ", ") + (certificate.names.count > 3 ? ", …" : "")
    let found = "TLS 1.3; the certificate is for \(names)"
    let trust = TrustWords(probe.verified)
    let facts = facts + trust.facts
    let end = trust.sentence.map { ". \($0)." } ?? "."
    guard let until = certificate.validUntilSeconds else {
      return Finding(.tls, trust.level, found + end, advice: trust.advice, facts: facts)
    }
    let days = (until - probe.nowSeconds) / 86_400
    guard days >= daysMin else {
      return Finding(
        .tls, .warning, "\(found), and ends in \(Readable.count(Int(clamping: days), "day")), on \(day(until))\(end)",
        advice: "Have the server's certificate renewed: afterwards nothing is delivered any more.", facts: facts)
    }
    return Finding(
      .tls, trust.level, "\(found), and is valid until \(day(until))\(end)", advice: trust.advice, facts: facts)
  }

  private static func refused(
    _ certificate: PeerCertificate, _ facts: [Fact], _ server: ServerAddress, _ probe: SecurityProbe,
    _ refusal: TransportError
  ) -> Finding {
    let problem = { (message: String, advice: String) in
      Finding(.tls, .problem, message, advice: advice, facts: facts)
    }
    if let (what, side) = outOfTime(certificate, probe.nowSeconds) {
      // By the server's own clock it is valid: then this machine's is wrong.
      if let serverSeconds = probe.serverSeconds, outOfTime(certificate, serverSeconds) == nil {
        return problem(
          "the certificate of \(server.host) \(what), says this machine's clock, which differs from the server's.",
          "Set this machine's clock: timedatectl set-ntp true.")
      }
      return problem(
        "the certificate of \(server.host) \(what).",
        side == .expired
          ? "Have the server's certificate renewed."
          : "Check this machine's clock (date) and the server's certificate.")
    }
    if !certificate.covers(server.host) {
      let names = certificate.names.isEmpty ? "nobody" : certificate.names.joined(separator: ", ")
      return problem(
        "the certificate is for \(names), and not for \(server.host).",
        "Use a name in --to that the certificate is for, or have one made for \(server.host); if neither is possible, "
          + "another server answers there.")
    }
    let signer = certificate.isSelfSigned ? "itself" : certificate.issuer
    return problem(
      "the certificate of \(server.host) is signed by \(signer), whom this machine does not trust (\(refusal.message)).",
      "If that is right, give the authority's certificate with --ca FILE. A server with a public certificate has to send "
        + "those between as well.")
  }

  private enum Side {
    case early, expired
  }

  private static func outOfTime(_ certificate: PeerCertificate, _ seconds: Int64) -> (String, Side)? {
    if let until = certificate.validUntilSeconds, seconds > until { return ("has ended on \(day(until))", .expired) }
    if let from = certificate.validFromSeconds, seconds < from { return ("is valid from \(day(from)) on", .early) }
    return nil
  }

  private static func noHandshake(_ server: ServerAddress, _ probe: SecurityProbe) -> Finding {
    if probe.older?.certificates.isEmpty == false {
      return Finding(
        .tls, .problem, "\(server.host) speaks only versions of TLS before 1.3, which are not used for uploads.",
        advice: "Have TLS 1.3 turned on there (OpenSSL has it since 2018), or put a newer web server in front of it.")
    }
    if let plain = probe.other, plain.status > 0 {
      return Finding(
        .tls, .problem, "port \(server.port) of \(server.host) answers plain HTTP, without TLS.",
        advice: "Give the port of the server's HTTPS in --to. Plain http:// is for this machine only, unless "
          + "--allow-plain-http.")
    }
    let why = probe.refusal?.message ?? probe.current.failure?.message ?? "no certificate was shown"
    return Finding(
      .tls, .problem, "no secure connection to port \(server.port) of \(server.host): \(why).",
      advice: "Something else than HTTPS may answer at this port. Check the port in --to.")
  }

  private static func unencrypted(_ server: ServerAddress, _ probe: SecurityProbe) -> Finding {
    if probe.other?.certificates.isEmpty == false {
      return Finding(
        .tls, .problem, "port \(server.port) of \(server.host) speaks TLS, and --to asks for plain HTTP.",
        advice: "Write https instead of http in --to.")
    }
    guard !server.isLoopback else { return Finding(.tls, .ok, "none: plain HTTP to this machine, as --to asks for.") }
    return Finding(
      .tls, .warning, "none: others on the way can read and change what is sent, credentials included.",
      advice: "Use https in --to where the server has it.")
  }

  private static func certificateFacts(_ certificate: PeerCertificate) -> [Fact] {
    var facts = [
      Fact(key: "certificate_names", value: .texts(certificate.names)),
      Fact(key: "certificate_subject", value: .text(certificate.subject)),
      Fact(key: "certificate_issuer", value: .text(certificate.issuer)),
    ]
    if let until = certificate.validUntilSeconds {
      facts.append(Fact(key: "valid_until_seconds", value: .number(until)))
    }
    return facts
  }

  /// `2026-11-22`.
  fileprivate static func day(_ seconds: Int64) -> String {
    String(Timestamp.text(millisecondsSince1970: seconds.multipliedReportingOverflow(by: 1000).partialValue).prefix(10))
  }
}

extension TransportError.Kind {
  /// The handshake was ended by what this side verifies, or did not come about.
  var isOfHandshake: Bool {
    switch self {
    case .tlsFailed, .certificateRefused, .pinMismatch, .transparencyRefused, .certificateRevoked, .stapleMissing: true
    default: false
    }
  }
}

/// Pins, timestamps and OCSP response of a server whose certificate was accepted.
private struct TrustWords {
  /// Nil where no handshake was watched.
  var sentence: String?
  var facts: [Finding.Fact] = []
  var level = Finding.Level.ok
  var advice: String?

  init(_ probe: ServerProbe?) {
    guard let probe else { return }
    if let failure = probe.failure {
      sentence = "A second look failed: \(failure.message)"
      level = .warning
      return
    }
    guard let report = probe.handshake else {
      sentence =
        "Pins, timestamps of certificate logs and OCSP responses are not looked at: the TLS of the installed libcurl is not this system's "
        + "OpenSSL"
      return
    }
    add(report.pinned.map { "Pinned (\($0) of \(report.keys.count) keys)" } ?? "Not pinned")
    facts.append(.init(key: "public_keys", value: .texts(report.keys.map(\.description))))
    if let pinned = report.pinned { facts.append(.init(key: "pinned_keys", value: .number(Int64(pinned)))) }
    take(report.transparency)
    take(report.staple, isRequired: report.requiresStaple)
  }

  private mutating func add(_ words: String) { sentence = sentence.map { "\($0); \(words)" } ?? words }

  private mutating func take(_ verdict: TransparencyVerdict?) {
    var code = "unknown"
    switch verdict {
    case .notNeeded(let standing)?:
      code = standing.code
      add(standing.words)
      if case .listTooOld = standing {
        level = .warning
        advice = "Put a newer list in the place of the file that --transparency-logs names."
      }
    case .exempt?:
      code = "exempt"
      add("its authority was added on this machine, so that it needs no timestamps of certificate logs")
    case .accepted(let count, let operators)?:
      code = "accepted"
      add("\(Readable.count(count, "timestamp")) of certificate logs, of \(operators.joined(separator: " and "))")
      facts.append(.init(key: "transparency_timestamps", value: .number(Int64(count))))
      facts.append(.init(key: "transparency_operators", value: .texts(operators)))
    case .refused?, nil: break
    }
    facts.append(.init(key: "transparency", value: .text(code)))
  }

  private mutating func take(_ staple: StapleVerdict?, isRequired: Bool) {
    var code = "none"
    switch staple {
    case StapleVerdict.none?, nil: add("no OCSP response came with it")
    case .good(let until)?:
      code = "good"
      add("the OCSP response that came with it says good" + (until.map { " until \(Finding.day($0))" } ?? ""))
    case .unusable(let reason)?:
      code = "unusable"
      add("the OCSP response that came with it \(reason), and does not count")
      level = .warning
      advice = advice ?? "Check OCSP stapling at the server."
    case .revoked?: code = "revoked"
    }
    facts.append(.init(key: "staple", value: .text(code)))
    facts.append(.init(key: "must_staple", value: .flag(isRequired)))
  }
}
