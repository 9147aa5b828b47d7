import FileModel
import FilesystemCalls
import FilesystemFixtures
import Promises
import Testing
import UploadFS

/// Calls that wait for a delivery, by rule.
@Suite struct WaitingCallsTests {
  private static let waiting = MountOptions {
    $0.rules.defaults.close = .wait
    $0.rules.defaults.fsync = .remote
  }
  private static let callsMax = 256

  @Test(.promises("S42g")) func atMost256CallsWait() async throws {
    try await mounted(Self.waiting) { side in
      let deliveries = side.mount.sink.deliveries
      func written(_ name: String) throws -> Slot {
        try side(.open(Path(name), [.create, .writeOnly], as: Slot(name)))
        try side(.write(Slot(name), "x"))
        return Slot(name)
      }
      deliveries.hold()
      let synchronized = try written("synchronized")
      var pending = [try side.first.begin(.fsync(synchronized))]
      for number in 1..<Self.callsMax { pending.append(try side.first.begin(.close(written("\(number)")))) }
      #expect(deliveries.waits(for: Self.callsMax))

      // A further one does not wait, of either kind; what it would have waited for goes on.
      let refused = try written("refused")
      #expect(try side(.fsync(refused)) == .failed(.again))
      try side(.write(refused, "y"))
      #expect(try side(.close(refused)) == .failed(.again))
      #expect(
        side.mount.sink.waits { records in
          records.contains { if case .event(.settled(let snapshot)) = $0 { snapshot.sizeBytes == 2 } else { false } }
        })
      #expect(deliveries.count == Self.callsMax)

      // Each that ends makes room for one.
      deliveries.deliver(1)
      pending.append(try side.first.begin(.close(written("next"))))
      #expect(deliveries.waits(for: Self.callsMax))
      #expect(try side(.close(written("one too many"))) == .failed(.again))

      deliveries.deliver()
      for call in pending { #expect(try call.answer() == .done) }
      deliveries.letGo(.delivered)
      try side(.close(synchronized))
    }
  }
}
