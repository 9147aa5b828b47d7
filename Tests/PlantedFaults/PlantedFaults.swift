import CPlantedFaults
import Glibc
import Synchronization

/// Commits one fault, or one thing that only looks like a fault, in a process of its own: SanitizerTests start it and
/// look at what is reported.
@main struct PlantedFaults {
  static func main() {
    switch CommandLine.arguments.dropFirst().first {
    case "swift-race": swiftRace()
    case "c-race": planted_c_race()
    case "swift-overflow": swiftOverflow()
    case "c-overflow": planted_c_overflow()
    case "c-use-after-free": exit(planted_c_use_after_free() - 1)
    case "contended-mutex": contendedMutex()
    default: exit(2)
    }
  }

  /// Sound only in the eyes of the compiler: that it is not is what is planted.
  private final class Unguarded: @unchecked Sendable {
    var value = 0
  }

  private static func swiftRace() {
    let shared = Unguarded()
    onTwoThreads { for _ in 0..<1000 { shared.value += 1 } }
  }

  private static func swiftOverflow() {
    let block = UnsafeMutablePointer<UInt8>.allocate(capacity: 16)
    // One argument at least: not known to the compiler.
    block[15 + CommandLine.arguments.count / 2] = 1
    block.deallocate()
  }

  /// No fault: every access is under the mutex, which both threads want all the time.
  private static func contendedMutex() {
    let shared = Mutex(Array(0..<100))
    onTwoThreads {
      for number in 0..<20_000 { shared.withLock { $0[number % 100] += 1 } }
    }
    let sum = shared.withLock { $0.reduce(0, +) }
    exit(sum == 4950 + 40_000 ? 0 : 3)
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  private static let entry: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { pointer in
    if let pointer { Unmanaged<Body>.fromOpaque(pointer).takeRetainedValue().run() }
    return nil
  }

  private static func onTwoThreads(_ body: @escaping @Sendable () -> Void) {
    var threads: [pthread_t] = []
    for _ in 0..<2 {
      var thread = pthread_t()
      // The +1 goes to the thread.
      guard pthread_create(&thread, nil, entry, Unmanaged.passRetained(Body(body)).toOpaque()) == 0 else { exit(4) }
      threads.append(thread)
    }
    for thread in threads { pthread_join(thread, nil) }
  }
}
