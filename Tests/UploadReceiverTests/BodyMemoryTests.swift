import NIOCore
import Promises
import ReceiverCore
import Testing

@testable import UploadReceiver

/// Memory for bodies: no credential takes it from the others.
@Suite struct BodyMemoryTests: ReceiverWithLimits {
  private let one = CredentialID("one")
  private let other = CredentialID("other")

  /// Regression: a receiver with 128 MB was killed for memory again and again, and never took a chunk of 32 MiB.
  @Test("Memory for bodies is half of what is available, and enough for the largest one")
  func memory_isHalfOfWhatIsAvailable_andEnoughForTheLargestBody() {
    let largest = 32 << 20
    let expected: [(available: UInt64?, bytes: Int)] = [
      (nil, BodyMemory.most), (8 << 30, BodyMemory.most), (1 << 30, 512 << 20), (100 << 20, 50 << 20),
      (40 << 20, largest), (0, largest), (.max, BodyMemory.most),
    ]
    for (available, bytes) in expected {
      #expect(BodyMemory.bytes(of: available, largestBody: largest) == bytes)
    }
  }

  @Test("Regression: 64 MiB were said to be enough for the largest chunks, of which a receiver needs 128 MiB")
  func tooLittleMemory_isSaidWithWhatIsNeeded() {
    let mebibyte: UInt64 = 1 << 20
    func lack(_ available: UInt64) -> String? {
      BodyMemory.shortageMessage(of: available, takenBytes: 12 * mebibyte, largestBody: 32 << 20)
    }
    #expect(lack(.max) == nil && lack(116 * mebibyte) == nil)
    #expect(
      lack(84 * mebibyte)
        == "84 MiB of memory are available; a receiver needs 128 MiB for chunks of 32 MiB (MemoryMax=, or the machine's)"
    )
    #expect(
      lack(20 * mebibyte)
        == "20 MiB of memory are available; a receiver needs 48 MiB, and 128 MiB for chunks of 32 MiB (MemoryMax=, or the machine's)"
    )
  }

  @Test(
    "Regression: bodies of one token that stand still do not lock another token out", .promises("P104", "SE10"))
  func silentBodies_giveWayToAnotherToken() async throws {
    try await serve(
      #"""
      s = Session()
      data = some_bytes(CS)
      silent = []
      for n in range(3):
          sock = raw()
          sock.sendall(head("PUT", s.path(n), {**s.headers(n, data), "Content-Length": CS}) + data[:1 + n])
          silent.append(sock)
      until(lambda: stats()["chunk_requests_in_flight_max"] >= 3)
      t = Session(token="other-token")
      expect(t.put(0, data), 201)
      # The one of which the least had come; the others go on.
      status, body, headers = answer(silent[0])
      assert status == 503 and b"problem:busy" in body and int(headers["Retry-After"]) > 0, (status, body)
      for n in (1, 2):
          silent[n].sendall(data[1 + n:])
          assert answer(silent[n])[0] == 201
      """#, tokens: ["other-token"]
    ) { $0.bodyMemoryBytes = 800_000 }
  }

  @Test("Regression: a body that trickles is ended", .promises("P104"))
  func trickledBody_isAnsweredWith408() async throws {
    try await serve(
      #"""
      s = Session()
      data = some_bytes(CS)
      sock = raw()
      sock.sendall(head("PUT", s.path(0), {**s.headers(0, data), "Content-Length": CS}))
      over = threading.Event()
      def drip():
          while not over.wait(0.02): sock.sendall(b"x")
      threading.Thread(target=drip, daemon=True).start()
      assert answer(sock)[0] == 408
      over.set()
      """#
    ) {
      $0.connections.bodyStart = .milliseconds(300)
      $0.connections.bodyBytesPerSecond = 1 << 20
    }
  }

  @Test("Regression: who holds least is served first, and has memory taken back from who holds most")
  func shares_areKept() {
    var shares = MemoryShares(bytes: 100)
    for id: UInt64 in 1...4 { #expect(shares.take(25, id, of: one, at: 0) == .granted) }
    for id: UInt64 in 5...9 { #expect(shares.take(25, id, of: one, at: 0) == .waits) }
    #expect(shares.take(25, 10, of: other, at: 0) == .waits)
    let arrived: (UInt64) -> Int? = { $0 == 1 ? nil : Int(10 - $0) }
    // Not at once, and not what is complete already.
    #expect(shares.tick(at: 999, arrived: arrived).revoked == [])
    #expect(shares.tick(at: 1000, arrived: arrived).revoked == [4])
    #expect(shares.tick(at: 1100, arrived: arrived).revoked == [])
    #expect(shares.give(of: 4) == [10])
    #expect(shares.give(of: 1) == [5])
    #expect(shares.take(25, 11, of: other, at: 2000) == .waits)
    // Two hold half each now, at most.
    #expect(shares.tick(at: 3000, arrived: arrived).revoked == [5])
    #expect(shares.give(of: 5) == [11])
    #expect(shares.take(25, 12, of: other, at: 3000) == .waits)
    #expect(shares.tick(at: 9000, arrived: { _ in 0 }).revoked == [])
    #expect(shares.tick(at: 10_000, arrived: arrived).late == [6, 7, 8, 9])
  }

  @Test("Regression: the places for those who wait are shared, too")
  func waitingPlaces_areShared() {
    var shares = MemoryShares(bytes: 2)
    for id: UInt64 in [0, 2000] { #expect(shares.take(1, id, of: one, at: 0) == .granted) }
    for id in 1...UInt64(MemoryShares.waitersMax) { #expect(shares.take(1, id, of: one, at: 0) == .waits) }
    #expect(shares.take(1, 1000, of: one, at: 0) == .refused)
    #expect(shares.take(1, 1001, of: other, at: 0) == .waitsInsteadOf(UInt64(MemoryShares.waitersMax)))
    #expect(shares.give(of: 0) == [1001])
  }

  @Test("Regression: a single credential may have all of the memory, and is served in order")
  func singleCredential_hasItAll() {
    var shares = MemoryShares(bytes: 100)
    #expect(shares.take(100, 1, of: one, at: 0) == .granted)
    #expect(shares.take(60, 2, of: one, at: 0) == .waits)
    #expect(shares.take(10, 3, of: one, at: 0) == .waits)
    #expect(shares.tick(at: 5000, arrived: { _ in 0 }).revoked == [])
    #expect(shares.give(50, of: 1) == [])
    #expect(shares.give(of: 1) == [2, 3])
    #expect(shares.free == 30)
  }

  @Test("Regression: a body larger than all of the memory was never granted, and refused after 10 s")
  func bodyLargerThanAllOfIt_isHeldAlone() {
    var shares = MemoryShares(bytes: 100)
    #expect(shares.take(104, 1, of: one, at: 0) == .granted)
    #expect(shares.free == -4)
    #expect(shares.take(1, 2, of: one, at: 0) == .waits)
    #expect(shares.give(of: 1) == [2])
    // It waits until nothing else is held, and who came later waits for it.
    #expect(shares.take(104, 3, of: other, at: 0) == .waits)
    #expect(shares.take(1, 4, of: other, at: 0) == .waits)
    #expect(shares.give(of: 2) == [3])
    // What it gives back early is granted to no body before some of the memory is free.
    #expect(shares.give(4, of: 3) == [])
    #expect(shares.give(1, of: 3) == [4])
    #expect(shares.give(of: 4) == [])
    #expect(shares.give(of: 3) == [])
    #expect(shares.free == 100)
  }

  @Test("Regression: a body larger than all of the memory has others ended only where it is granted then")
  func bodyLargerThanAllOfIt_endsNoneInVain() {
    var shares = MemoryShares(bytes: 100)
    for id: UInt64 in 1...2 { #expect(shares.take(50, id, of: one, at: 0) == .granted) }
    #expect(shares.take(104, 3, of: other, at: 0) == .waits)
    // One of the two is no more than its owner's share, and would stay.
    #expect(shares.tick(at: 1000, arrived: { _ in 0 }).revoked == [])
    #expect(shares.give(of: 1) == [])
    #expect(shares.give(of: 2) == [3])
    // It is more than a share itself.
    #expect(shares.take(104, 4, of: one, at: 2000) == .waits)
    #expect(shares.tick(at: 3000, arrived: { _ in 0 }).revoked == [3])
    #expect(shares.give(of: 3) == [4])
    #expect(shares.give(of: 4) == [])
    #expect(shares.free == 100)
  }
}
