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
    let files = try mount.listedFiles() ?? mount.statusTexts().map { try ListedFile(FileReading($0.text), at: $0.path) }
    // What still needs attention comes first; each part keeps the order of the names.
    let isDone = { (file: ListedFile) in ["complete", "removed"].contains(file.state) }
    var lines = [line(["STATE", "SIZE", "DONE", "RATE", "NAME"])]
    lines.reserveCapacity(files.count + 3)
    for file in files where !isDone(file) { lines += rows(of: file) }
    for file in files where isDone(file) { lines += rows(of: file) }
    let summary = try mount.summary()
    if let renewed = summary.spool?.renewed { lines.append(Readable.line(renewed.message)) }
    lines.append("to \(summary.destination): \(summary.remainder)")
    return lines.joined(separator: "\n")
  }

  private func rows(of file: ListedFile) -> [String] {
    let rate = file.bytesPerSecond > 0 ? Readable.rate(Double(file.bytesPerSecond)) : "-"
    let columns = [
      file.state, Readable.bytes(file.totalBytes), "\(file.percent) %", rate, Readable.line(file.path.displayText),
    ]
    return file.remark.isEmpty ? [line(columns)] : [line(columns), "            \(Readable.line(file.remark))"]
  }

  private func line(_ columns: [String]) -> String {
    var line = ""
    for (text, width) in zip(columns, [11, 10, 6, 12, 0]) {
      if !line.isEmpty { line += " " }
      line += text
      // The last one, which a name may make long, is not counted.
      if width > 0 { for _ in 0..<max(0, width - text.count) { line += " " } }
    }
    return line
  }

  /// JSON without the blanks and newlines that pad it.
  private func plain(_ json: [UInt8]) -> String {
    let isBlank = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n") }
    return String(decoding: json.reversed().drop(while: isBlank).reversed(), as: UTF8.self)
  }
}

extension FileReading {
  /// How much of the file is sent. A file without bytes is done when it is complete.
  var percentText: String { "\(wholePercent) %" }

  fileprivate var wholePercent: Int { state == "complete" ? 100 : Int(min(max(percent, 0), 100).rounded(.down)) }

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

extension ListedFile {
  /// What the document of a file says.
  fileprivate init(_ file: FileReading, at path: RelativePath) {
    let failure = file.state == "complete" ? nil : file.lastError?.message
    let rate = min(max(0, file.rateBytesPerSecond), 1e15)
    self.init(
      path: path, state: Self.shownState(file.state, isLocal: file.local), isLocal: file.local,
      totalBytes: file.bytes.total, percent: file.wholePercent, bytesPerSecond: UInt64(rate),
      remark: failure ?? (file.state == "uploading" ? file.reason : nil) ?? "")
  }
}
