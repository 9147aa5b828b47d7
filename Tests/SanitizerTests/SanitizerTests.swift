import Foundation
import Glibc
import Testing

/// The sanitizer is on, in Swift and in C, and says nothing of what is no fault. In each test a process of its own commits
/// one fault; these tests exist only in the sanitizers' build.
@Suite struct SanitizerTests {
  private static let isThreadSanitizer = dlsym(nil, "__tsan_init") != nil
  private static let isAddressSanitizer = dlsym(nil, "__asan_init") != nil
  private static let exitStatus: Int32 = 66

  @Test func aSanitizerIsLinked() {
    #expect(Self.isThreadSanitizer != Self.isAddressSanitizer)
  }

  @Test(
    .enabled(if: isThreadSanitizer),
    arguments: [
      ("swift-race", "WARNING: ThreadSanitizer: Swift access race"), ("c-race", "WARNING: ThreadSanitizer: data race"),
    ])
  func aRaceIsReported(fault: String, report: String) throws {
    let ended = try commit(fault)
    #expect(ended.status == Self.exitStatus, "\(ended.errors)")
    #expect(ended.errors.contains(report), "\(ended.errors)")
  }

  /// Without CMutexAnnotations every hand-over of a contended mutex would be reported.
  @Test(.enabled(if: isThreadSanitizer)) func aContendedMutexIsNoRace() throws {
    let ended = try commit("contended-mutex")
    #expect(ended.status == 0 && ended.errors.isEmpty, "\(ended.errors)")
  }

  @Test(
    .enabled(if: isAddressSanitizer),
    arguments: [
      ("swift-overflow", "heap-buffer-overflow"), ("c-overflow", "heap-buffer-overflow"),
      ("c-use-after-free", "heap-use-after-free"),
    ])
  func aWrongAccessIsReported(fault: String, report: String) throws {
    let ended = try commit(fault)
    #expect(ended.status == Self.exitStatus, "\(ended.errors)")
    #expect(ended.errors.contains("ERROR: AddressSanitizer: \(report)"), "\(ended.errors)")
  }

  private func commit(_ fault: String) throws -> (status: Int32, errors: String) {
    let process = Process()
    // Beside the tests in the build folder.
    process.executableURL = try URL(
      fileURLWithPath: FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    )
    .deletingLastPathComponent().appendingPathComponent("planted-faults")
    process.arguments = [fault]
    let options = "exitcode=\(Self.exitStatus)"
    process.environment = ["TSAN_OPTIONS": options, "ASAN_OPTIONS": options]
    let errors = Pipe()
    process.standardError = errors
    try process.run()
    let text = try errors.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationReason == .exit ? process.terminationStatus : -1, String(decoding: text, as: UTF8.self))
  }
}
