import FileModel
import Fuzzing

@testable import FileModel
@testable import UploadFS

private let statusLine =
  "4321 (a) b (c)) Z 1 4321 4321 0 -1 4228108 100 0 0 0 1 2 0 0 20 0 1 0 12345 0 0 18446744073709551615 0 0 0 0 0 0 0 "
  + "4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 9\n"

let attributeParsers: [FuzzedParser] = [
  FuzzedParser(
    "WriterStateXattr", bytesMax: 128,
    words: ["writing", "closed ", "write-refused ", "write-failed ", "writer-killed ", "mount-died", "not-on-disk"],
    texts: [
      "writing", "writing 0123abcd.1f", "closed 5", "closed 18446744073709551615 0123abcd.1f", "closed",
      "write-refused 5", "write-failed 28",
      "writer-killed 9", "change-refused", "mount-died", "not-on-disk", "closed 5 a b", "closed -5", "writer-killed -1",
    ]
  ) { input in
    let mark = WriterStateXattr(input.text)
    require(WriterStateXattr(mark.text ?? "") == mark, "a mark comes back")
    for size in [0, 5, UInt64.max] { _ = mark.interruption(sizeBytes: size, in: SpoolInstance(name: "0123abcd.1f")) }
  },
  FuzzedParser(
    "FileLabel", bytesMax: 1024,
    words: [
      ";mwriting", ";mclosed 5", ";r4194304 1-57", ";s4096 id 00ff https://a b", ";x", "1AAAAAAAAAAAAAAAAAAAAAA", "%3b",
    ],
    texts: [
      "1AAAAAAAAAAAAAAAAAAAAAA",
      "1D____________________w;mclosed 5 0123abcd.1f;r4194304 1-57 60-60;s4194304 a%20b - https://a",
      "1D____________________w;r10 1-3;d4a81c2b6f90e3d71 5d3fc27f7a8af6ab",
      "1AAAAAAAAAAAAAAAAAAAAAA;mwriting;mnot-on-disk;y;;z", "2AAAAAAAAAAAAAAAAAAAAAA;r1", "1", ";;;",
    ]
  ) { input in
    let label = FileLabel(input.text)
    guard label.id != nil, label.saysWhatIsMissing else { return }
    let again = FileLabel(label.text)
    require(again.id == label.id && again.mark == label.mark && again.released == label.released, "a label comes back")
    require(again.others == label.others, "members of later versions stay")
    require(label.released == nil || again.pointer == label.pointer, "and where the missing parts are")
  },
  FuzzedParser(
    "RecordedMarks", bytesMax: 512, words: ["writing", "closed ", "none", " - ", " .\n", "mount-died"],
    texts: [
      "1 writing .\n2 closed 5 0123abcd.1f .\n1 - .\n3 none .\n", "1 wri", "1 writing .", "no number .\n", "\n\n1  .\n",
    ]
  ) { input in
    var recorded = RecordedMarks(input.text)
    let again = RecordedMarks(recorded.text)
    require(again.marks == recorded.marks && again.ids == recorded.ids, "marks come back")
    let writing = WriterStateXattr.writing(in: SpoolInstance(name: "0123abcd.1f"))
    let line = recorded.set(writing, of: 7)
    require(RecordedMarks(recorded.text + line).marks[7] == writing, "the last line counts")
  },
  FuzzedParser(
    "ReleasedChunks", bytesMax: 1024, words: ["4194304 ", " 1-57", "1048575", "1048576", "9223372036854775807", "-"],
    texts: ["4194304 1-57 60-60", "1", "9223372036854775807 0-1048575", "4 2-1", "4 0-0 1-1", "0 1-2", "4 5-5 3-3"]
  ) { input in
    guard var released = ReleasedChunks(input.text) else { return }
    require(ReleasedChunks(released.text) == released, "released chunks come back")
    require(released.text.utf8.count <= 4096, "they fit into an attribute")
    let (length, runs) = (UInt64(released.chunkBytes), released.runs)
    for run in runs {
      let (end, isTooLarge) = run.upperBound.multipliedReportingOverflow(by: length)
      require(!isTooLarge && end <= UInt64(Int64.max), "a run is within a file")
      let first = run.lowerBound * length
      require(released.intersects(first..<(first + 1)), "a released chunk is missing")
      require(released.isNeeded(for: .bytes(first..<(first + 1))), "its bytes are needed")
    }
    for extent in [ContentExtent.size(0), .size(length), .size(UInt64(Int64.max)), .blocks(0..<UInt64(Int64.max))] {
      _ = released.isNeeded(for: extent)
    }
    _ = (released.insert(7), released.insert(8), released.insert(1 << 20))
    for run in runs { released.remove(run.lowerBound + (run.upperBound - run.lowerBound) / 2) }
    require(ReleasedChunks(released.text) == released.withoutContents, "changes come back")
    released.cut(at: UInt64(Int64.max))
    released.cut(at: 0)
    require(released.isEmpty, "an empty file lacks nothing")
  },
  FuzzedParser(
    "ProcessExitState", words: [") Z ", " 4228108 ", " 9\n", "-1", "18446744073709551615"],
    texts: [statusLine, statusLine.replacing("4228108", with: "4194304"), "1 (x) R 1", ")", "", ") ) )"]
  ) { input in
    let exitState = ProcessExitState(statusLine: input.bytes)
    require((0...127).contains(exitState.signal), "a signal has seven bits")
    require(exitState.signal == 0 || exitState.isEnding, "a process that lives has no signal")
  },
]
