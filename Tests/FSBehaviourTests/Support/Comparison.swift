import FilesystemCalls
import Glibc
import Testing

/// Plays a test in a mount and in a plain folder beside it. Every answer, and the tree that is left, must be the same.
func comparison(
  _ options: MountOptions = .alone, sourceLocation: SourceLocation = #_sourceLocation,
  _ play: @Sendable (Side) throws -> Void
) async throws {
  try await perform(on: [.mounted, .plain], options, sourceLocation, play)
}

/// Plays a test in a mount only: what it says there differs from a plain folder, or concerns the mount itself.
func mounted(
  _ options: MountOptions = .alone, sourceLocation: SourceLocation = #_sourceLocation,
  _ play: @Sendable (Side) throws -> Void
) async throws {
  try await perform(on: [.mounted], options, sourceLocation, play)
}

private func perform(
  on kinds: [Side.Kind], _ options: MountOptions, _ location: SourceLocation, _ play: @Sendable (Side) throws -> Void
) async throws {
  try await withTaskExecutorPreference(FilesystemThreads.shared) {
    let mount = try InProcessMount(options)
    var transcripts: [[(call: String, answer: Answer)]] = []
    do {
      for kind in kinds { transcripts.append(try transcript(kind, mount, location, play)) }
    } catch {
      Issue.record(error, sourceLocation: location)
    }
    for complaint in mount.close() { Issue.record("\(complaint)", sourceLocation: location) }
    guard transcripts.count == 2 else { return }
    for difference in differences(transcripts[0], transcripts[1]) {
      Issue.record("\(difference)", sourceLocation: location)
    }
  }
}

private func transcript(
  _ kind: Side.Kind, _ mount: InProcessMount, _ location: SourceLocation, _ play: (Side) throws -> Void
) throws -> [(call: String, answer: Answer)] {
  let side = try Side(kind, mount)
  do {
    try play(side)
    try side.another("the end")(.tree("."))
  } catch {
    if case Actor.Failure.late = error {
      // Killed before the mount is aborted, so that nothing is done after the call that hung.
      side.kill()
      mount.abort()
    }
    side.end()
    throw error
  }
  side.end()
  return side.transcript
}

/// The calls whose answers differ, each with both; at most ten.
private func differences(
  _ mounted: [(call: String, answer: Answer)], _ plain: [(call: String, answer: Answer)]
) -> [String] {
  var found: [String] = []
  for (index, (one, other)) in zip(mounted, plain).enumerated() where found.count < 10 {
    if one.call != other.call {
      return found + ["call \(index) is \(one.call) in the mount and \(other.call) in the plain folder"]
    }
    guard one.answer != other.answer else { continue }
    let before = index > 0 ? "\n  after: \(mounted[index - 1].call)" : ""
    found.append("call \(index): \(one.call)\(before)\n" + difference(one.answer, other.answer))
  }
  if mounted.count != plain.count {
    found.append("\(mounted.count) calls in the mount, \(plain.count) in the plain folder")
  }
  return found
}

/// What both sides answered; of trees only the entries that differ.
func difference(_ mounted: Answer, _ plain: Answer) -> String {
  guard case .tree(let one) = mounted, case .tree(let other) = plain else {
    return "  in the mount: \(mounted)\n  in the plain folder: \(plain)"
  }
  let (ours, theirs) = (Set(one), Set(other))
  return
    (one.filter { !theirs.contains($0) }.map { "  only in the mount: \($0)" }
    + other.filter { !ours.contains($0) }.map { "  only in the plain folder: \($0)" })
    .joined(separator: "\n")
}
