import Synchronization
import Testing

@testable import UploadFS

struct OpenWritersTests {
  private static func refuses(_ writers: OpenWriters) -> Bool {
    do throws(SystemError) {
      try writers.requireAccepting()
      return false
    } catch {
      return error == .readOnly
    }
  }

  @Test func lastWriterOfADrainingMount_isTold() {
    let writers = OpenWriters()
    for _ in 0..<2 { writers.opened() }
    #expect(!Self.refuses(writers))
    let count = Counter()
    writers.drain { count.add() }
    #expect(Self.refuses(writers))
    writers.ended()
    #expect(count.value == 0 && writers.count == 1)
    writers.ended()
    #expect(count.value == 1 && writers.count == 0)
  }

  @Test func writersThatEnd_areNotTold_asLongAsTheMountTakesOthers() {
    let writers = OpenWriters()
    let count = Counter()
    writers.opened()
    writers.ended()
    writers.drain { count.add() }
    #expect(count.value == 0)
  }

  private final class Counter: Sendable {
    private let count = Atomic<Int>(0)
    var value: Int { count.load(ordering: .relaxed) }
    func add() { count.add(1, ordering: .relaxed) }
  }
}
