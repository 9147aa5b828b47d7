import ArgumentParser
import FileModel
import MountConfiguration
import UploadEngine

/// Shows how far captures are.
struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Show how far every capture, or one of them, is.")

  @Argument(help: "A mounted uploadfs.")
  var mountPoint: String

  @Argument(help: "A capture's path in the mount.")
  var path: String?

  @Flag(help: "Print the JSON of the mount's own status files.")
  var json = false

  @Option(help: ArgumentHelp("Give up after this long: a stopped daemon answers nothing.", valueName: "seconds"))
  var timeout: TimeLimit?

  func run() throws {
    try reportingFailures {
      try SettingBytes.check(arguments: RawArguments.all, ofMountAt: mountPoint, flags: ["--timeout"])
      let limit = CommandLimit(timeout, of: mountPoint)
      let text = try text(of: MountView(mountPoint))
      limit.finish()
      StandardOutput.line(text)
      return .success
    }
  }

  private func text(of mount: MountView) throws -> String {
    if let path {
      let bytes = RawArguments.bytes(of: [path], after: mountPoint)[0]
      let text = try mount.statusText(of: mount.relativePath(of: bytes))
      return json ? plain(text) : try FileReading(text).details
    }
    guard json else { return try table(of: mount) }
    let files = try mount.statusTexts().map { plain($0.text) }.joined(separator: ",\n")
    return "{\"summary\": \(plain(try mount.summaryText())), \"files\": [\n\(files)\n]}"
  }

  private func table(of mount: MountView) throws -> String {
    // A file of several names is a row for each.
    let files = try mount.statusTexts().map {
      (name: Readable.line($0.path.displayText), file: try FileReading($0.text))
    }
    // What still needs attention comes first; each part keeps the order of the names.
    let isDone = { (row: (name: String, file: FileReading)) in ["complete", "removed"].contains(row.file.shownState) }
    let rows = files.filter { !isDone($0) } + files.filter(isDone)
    var lines = [line(["STATE", "SIZE", "DONE", "RATE", "NAME"])]
    for (name, file) in rows {
      let rate = file.rateBytesPerSecond > 0 ? Readable.rate(file.rateBytesPerSecond) : "-"
      lines.append(line([file.shownState, Readable.bytes(file.bytes.total), file.percentText, rate, name]))
      if let failure = file.lastError, file.state != "complete" {
        lines.append("            \(Readable.line(failure.message))")
      } else if file.state == "uploading", let reason = file.reason {
        lines.append("            \(Readable.line(reason))")
      }
    }
    let summary = try mount.summary()
    if let renewed = summary.spool?.renewed { lines.append(Readable.line(renewed.message)) }
    lines.append("to \(summary.destination): \(summary.remainder)")
    return lines.joined(separator: "\n")
  }

  private func line(_ columns: [String]) -> String {
    zip(columns, [11, 10, 6, 12, 0]).map { text, width in
      text + String(repeating: " ", count: max(0, width - text.count))
    }.joined(separator: " ")
  }

  /// JSON without the blanks and newlines that pad it.
  private func plain(_ json: [UInt8]) -> String {
    let isBlank = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n") }
    return String(decoding: json.reversed().drop(while: isBlank).reversed(), as: UTF8.self)
  }
}

extension FileReading {
  /// What was removed before it was delivered cannot be resumed.
  var shownState: String { state == "cancelled" && !local ? "removed" : state }

  /// How much of the file is sent. A file without bytes is done when it is complete.
  var percentText: String {
    guard state != "complete" else { return "100 %" }
    return "\(Int(min(max(percent, 0), 100).rounded(.down))) %"
  }

  /// One fact a line.
  var details: String {
    var facts: [(String, String)] = [("file", Readable.line(path)), ("state", state)]
    if let reason { facts.append(("reason", Readable.line(reason))) }
    facts.append(("published as", Readable.line(publishedName)))
    facts.append(("size", "\(Readable.bytes(bytes.total)) (\(bytes.total) bytes)"))
    facts.append(("sent", "\(Readable.bytes(bytes.sent ?? bytes.acknowledged)) (\(percentText))"))
    if let compression {
      let (plain, sent) = (Readable.bytes(compression.plainBytes), Readable.bytes(compression.sentBytes))
      facts.append(("compressed", "\(plain) to \(sent) (\(Readable.line(compression.encoding)))"))
    }
    facts.append(("acknowledged", Readable.bytes(bytes.acknowledged)))
    if let atStakeBytes, atStakeBytes > 0 {
      facts.append(("at stake", "\(Readable.bytes(atStakeBytes)) would go again after a break now"))
    }
    if let upload {
      let mean = upload.bytesPerSecond.map { ", \(Readable.rate($0)) on average" } ?? ""
      facts.append(("took", Readable.seconds(upload.seconds) + mean))
    }
    if rateBytesPerSecond > 0 { facts.append(("rate", Readable.rate(rateBytesPerSecond))) }
    if let etaSeconds { facts.append(("left", Readable.seconds(etaSeconds))) }
    facts.append(
      (
        "chunks",
        "\(chunks.done) of \(chunks.total) done, \(chunks.inFlight) in flight, \(chunks.retried) retried, "
          + "\(chunks.reused) reused"
      ))
    if let lastError { facts.append(("error", Readable.line("\(lastError.message) (\(lastError.code))"))) }
    if let nextAttemptAt { facts.append(("next try", nextAttemptAt)) }
    if let receipt { facts.append(("receipt", Readable.line("\(receipt.id), Merkle root \(receipt.merkleRoot)"))) }
    return facts.map { name, text in
      name + ":" + String(repeating: " ", count: max(1, 14 - name.count)) + text
    }.joined(separator: "\n")
  }
}
