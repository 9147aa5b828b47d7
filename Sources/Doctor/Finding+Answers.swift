import CurlTransport
import TransferModel
import UploadEngine

/// What a server's answers mean. Pure.
extension Finding {
  /// Whether the two clocks agree: `difference` is how far the server's is ahead, in seconds.
  static func clock(difference: Int64?) -> Finding {
    guard let difference else {
      return Finding(.clock, .skipped, "the server does not tell its time.")
    }
    let facts = [Fact(key: "server_ahead_seconds", value: .number(difference))]
    let amount = Readable.seconds(Double(difference.magnitude))
    guard difference.magnitude > ClockDifference.secondsToMention else {
      return Finding(.clock, .ok, "the clocks of this machine and the server agree.", facts: facts)
    }
    let found = "the server's clock is \(amount) \(difference > 0 ? "ahead of" : "behind") this machine's"
    guard difference.magnitude > ClockDifference.secondsToWarn else {
      return Finding(.clock, .ok, "\(found).", facts: facts)
    }
    return Finding(
      .clock, .warning, "\(found).",
      advice: "Find out which is wrong (date -u) and have it set: timedatectl set-ntp true. Certificates, signatures "
        + "and the times of captures depend on it.", facts: facts)
  }

  /// Of a request that only asks whether a server answers. `hindrance` is why HTTP/2 is not tried, where it should be.
  static func answer(_ answer: StepAnswer, hindranceOfHTTP2 hindrance: HTTP2Hindrance? = nil) -> Finding {
    let offers = answer.connection?.alternatives ?? []
    let facts = answer.connection.map { connection in
      [
        Fact(key: "protocol", value: .text(connection.protocolName)),
        Fact(key: "milliseconds", value: .number(Int64(connection.timeToFirstByte / .milliseconds(1)))),
      ] + (offers.isEmpty ? [] : [Fact(key: "alternatives", value: .texts(offers.map(\.text)))])
    }
    switch answer.outcome {
    case .refused(let failure): return Finding(.http, .problem, failure.message, facts: facts ?? [])
    default:
      let time = answer.connection?.timeToFirstByte.readable ?? "?"
      let other = offers.first { $0.protocolID == "h3" }.map {
        " It offers HTTP/3 as well (\($0.text)), which this version does not use."
      }
      let version = hindrance.map { " \($0.words)" }
      return Finding(
        .http, .ok,
        "the server answers over \(answer.connection?.protocolName ?? "HTTP") (\(time)).\(version ?? "")\(other ?? "")",
        facts: facts ?? [])
    }
  }

  /// How many receivers have answered at one address; nil where that is as it should be.
  static func severalServers(_ count: Int) -> Finding? {
    guard count > 1 else { return nil }
    return Finding(
      .http, .problem, "\(count) receivers answer at this address, and none of them knows the uploads of the others.",
      advice:
        "Give the address of one of them, or have what stands before them lead each client to one and the same. If the "
        + "receiver was restarted just now, look again.", facts: [Fact(key: "servers", value: .number(Int64(count)))])
  }

  /// A step that was refused; `topic` is what it was to show.
  static func refusal(_ failure: StepFailure, of topic: Check, clockDifference: Int64?) -> Finding {
    let check: Check =
      switch failure.kind {
      case .unauthorized, .forbidden: .credentials
      default: topic
      }
    // Signatures hold for a quarter of an hour: what a wrong clock has done may look like anything.
    guard let clockDifference, clockDifference.magnitude > ClockDifference.secondsToWarn else {
      return Finding(check, .problem, failure.message)
    }
    return Finding(
      check, .problem, failure.message,
      advice: "The clocks differ by \(Readable.seconds(Double(clockDifference.magnitude))): set them right first, "
        + "timedatectl set-ntp true.")
  }

  /// What the destination can do, as it states it.
  static func abilities(_ abilities: DestinationAbilities) -> Finding {
    let unit = abilities.streamsWholeFiles ? "file" : "chunk"
    var words = [Readable.count(abilities.parallelChunks, unit) + " at the same time"]
    words.append(
      abilities.sendsWhileWriting
        ? "files are sent while they are written" : "files are sent when they are complete")
    if abilities.bindsNameAtOpening { words.append("a rename sends a file again") }
    words.append(
      abilities.resumes
        ? "an upload that was broken off goes on where it was" : "an upload that was broken off begins anew")
    return Finding(
      .abilities, .ok, words.joined(separator: "; ") + ".",
      facts: [
        Fact(key: "parallel_chunks", value: .number(Int64(abilities.parallelChunks))),
        Fact(key: "replaceable_chunks", value: .flag(abilities.replaceableChunks)),
        Fact(key: "unknown_length", value: .flag(abilities.unknownLength)),
        Fact(key: "whole_file_bytes_max", value: .number(Int64(abilities.wholeFileBytesMax))),
        Fact(key: "binds_name_at_opening", value: .flag(abilities.bindsNameAtOpening)),
        Fact(key: "streams_whole_files", value: .flag(abilities.streamsWholeFiles)),
        Fact(key: "resumes", value: .flag(abilities.resumes)),
        Fact(key: "chunk_rows", value: .text(abilities.appendSequences.word)),
      ])
  }

  /// What the destination takes: by itself, and as the server has said; both may be unknown.
  static func limits(_ abilities: DestinationAbilities, _ asked: DestinationLimits?, fileBytesMax: UInt64) -> Finding {
    let known = [abilities.fileBytesMax, asked?.fileBytesMax].compactMap { $0 }.min()
    var words: [String] = []
    var facts: [Fact] = []
    if let known {
      words.append("files of up to \(Readable.bytes(known))")
      facts.append(Fact(key: "file_bytes_max", value: .number(Int64(clamping: known))))
    }
    let chunks = asked?.chunkBytes.map { ($0.lowerBound, $0.upperBound) }
    if let (least, most) = chunks {
      words.append("chunks of \(Readable.bytes(UInt64(clamping: least))) to \(Readable.bytes(UInt64(clamping: most)))")
    } else if abilities.chunkBytesMin > 1 {
      words.append("chunks of \(Readable.bytes(UInt64(clamping: abilities.chunkBytesMin))) at least")
    }
    if abilities.chunkCountMax < .max {
      words.append("at most \(Readable.count(abilities.chunkCountMax, "chunk")) of a file")
    }
    guard !words.isEmpty else { return Finding(.limits, .skipped, "the server cannot be asked what it takes.") }
    guard let known, known < fileBytesMax else {
      return Finding(.limits, .ok, words.joined(separator: "; ") + ".", facts: facts)
    }
    return Finding(
      .limits, .warning, words.joined(separator: "; ") + ".",
      advice: "Writers may make files of up to \(Readable.bytes(fileBytesMax)); larger ones than the server takes "
        + "fail. Give --max-file-size \(known), and writers are told at once.", facts: facts)
  }
}

extension HTTP2Hindrance {
  /// What it means for uploads, as a sentence.
  fileprivate var words: String {
    switch self {
    case .lacking(let version): "HTTP/2 is not tried: the installed libcurl \(version) was built without it."
    case .stalls(let version):
      "HTTP/2 is not tried: its uploads stall with the installed libcurl \(version), before 8.10."
    }
  }
}

extension AppendSequences {
  /// A stable word for programs.
  fileprivate var word: String {
    switch self {
    case .none: "none"
    case .one: "one"
    case .growing: "growing"
    }
  }
}

/// When two clocks differ.
enum ClockDifference {
  /// HTTP knows whole seconds, and an answer takes its time.
  static let secondsToMention: UInt64 = 5
  static let secondsToWarn: UInt64 = 60

  /// How far a server's clock is ahead, from what it said in an answer that took so long and has just come.
  static func seconds(serverSeconds: Int64, nowNanoseconds: Int64, roundTrip: Duration) -> Int64 {
    let middle = nowNanoseconds / 1_000_000_000 - roundTrip.components.seconds / 2
    return serverSeconds.subtractingReportingOverflow(middle).partialValue
  }
}
