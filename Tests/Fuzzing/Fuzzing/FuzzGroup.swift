import CFuzzing
import Glibc
import Synchronization

/// A group of parsers as a program. Which of them runs is the word in `UPLOADFS_PARSER`: libFuzzer starts itself again with
/// its own arguments when it merges a corpus, and the environment stays.
///
/// - `--parsers` prints their names; with `FUZZ_PLANTED` set there is one more, whose fault has to be found.
/// - `--write FOLDER` writes seeds to FOLDER/seeds, the dictionary to FOLDER/dictionary and the options of libFuzzer to
///   FOLDER/options.
/// - Everything else is libFuzzer's.
public enum FuzzGroup {
  /// The program.
  public static func main(_ group: [FuzzedParser]) -> Never {
    let parsers = getenv("FUZZ_PLANTED") == nil ? group : group + [plantedFault]
    let arguments = CommandLine.arguments.dropFirst()
    if arguments.first == "--parsers" {
      for parser in parsers { print(parser.name) }
      exit(0)
    }
    let wanted = getenv("UPLOADFS_PARSER").map { String(cString: $0) } ?? ""
    guard let parser = parsers.first(where: { $0.name == wanted }) else {
      print("UPLOADFS_PARSER is one of: \(parsers.map(\.name).joined(separator: ", "))")
      exit(2)
    }
    if arguments.first == "--write", let folder = arguments.dropFirst().first {
      write(parser, to: folder)
      exit(0)
    }
    running.withLock { $0 = parser }
    var count = CommandLine.argc
    var values: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
    exit(LLVMFuzzerRunDriver(&count, &values, testOneInput))
  }

  private static func write(_ parser: FuzzedParser, to folder: String) {
    do {
      mkdir("\(folder)/seeds", 0o755)
      // One that every parser should survive.
      for (number, seed) in try ([[]] + parser.seeds()).enumerated() {
        write(seed, to: "\(folder)/seeds/\(number)")
      }
    } catch {
      print("the seeds of \(parser.name) cannot be made: \(error)")
      exit(1)
    }
    write(Array((parser.words.map(quoted).joined(separator: "\n") + "\n").utf8), to: "\(folder)/dictionary")
    write(Array("-max_len=\(parser.bytesMax)\n".utf8), to: "\(folder)/options")
  }

  private static func write(_ bytes: [UInt8], to path: String) {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    guard file >= 0, Glibc.write(file, bytes, bytes.count) == bytes.count, close(file) == 0 else {
      print("\(path) cannot be written")
      exit(1)
    }
  }

  /// As libFuzzer's dictionaries have it.
  private static func quoted(_ word: String) -> String {
    let digits = Array("0123456789ABCDEF")
    let escaped = word.utf8.map { byte -> String in
      (0x20...0x7e).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
        ? String(UnicodeScalar(byte)) : "\\x\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
    }
    return "\"\(escaped.joined())\""
  }
}

/// Global, because the callback of C has no context.
private let running = Mutex<FuzzedParser?>(nil)

/// Under the name that libFuzzer's own main wants; it is linked, and not used.
@_cdecl("LLVMFuzzerTestOneInput") func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let parser = running.withLock({ $0 }) else { return -1 }
  do {
    try parser.test(FuzzInput(UnsafeBufferPointer(start: data, count: count)))
  } catch {
    fatalError("\(parser.name) threw what its test does not expect: \(error)")
  }
  return 0
}
