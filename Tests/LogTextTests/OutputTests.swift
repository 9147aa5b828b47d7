import Dispatch
import Glibc
import Synchronization
import Testing
import Threads

@testable import LogText

/// All that a queue gives, a few bytes at a time.
private func drain(_ queue: inout OutputQueue, atOnce: Int = 5) -> String {
  var written: [UInt8] = []
  while let text = queue.next() {
    let count = min(atOnce, text.count)
    written += text.prefix(count)
    _ = queue.wrote(count)
  }
  return String(decoding: written, as: UTF8.self)
}

@Suite struct OutputQueueTests {
  @Test func texts_comeInTheirOrder_whateverTheTargetTakesAtOnce() {
    for atOnce in [1, 3, 100] {
      var queue = OutputQueue(.lines)
      for text in ["one\n", "two\n", "three\n"] { queue.put(Array(text.utf8)) }
      #expect(drain(&queue, atOnce: atOnce) == "one\ntwo\nthree\n" && queue.isEmpty)
    }
  }

  @Test func whatIsMissing_isSaidWhereItWouldStand() {
    var queue = OutputQueue(.lines)
    queue.put(Array("one\n".utf8))
    queue.missed(3)
    queue.put(Array("five\n".utf8))
    queue.missed(1)
    #expect(
      drain(&queue) == """
        one
        uploadfs: 3 messages are missing here: what was said before was not read
        five
        uploadfs: 1 message is missing here: what was said before was not read

        """)
  }

  @Test func onATerminal_progressIsRewritten_andGivesWayToTexts() {
    var queue = OutputQueue(.terminal)
    queue.show(Array("1 left".utf8))
    #expect(drain(&queue) == "\r\u{1b}[K1 left")
    queue.put(Array("text\n".utf8))
    queue.put(Array("more\n".utf8))
    queue.show(Array("0 left".utf8))
    #expect(drain(&queue) == "\r\u{1b}[Ktext\nmore\n\r\u{1b}[K0 left")
    queue.endShowing()
    queue.put(Array("end\n".utf8))
    #expect(drain(&queue) == "\nend\n")
    queue.endShowing()
    #expect(drain(&queue).isEmpty)
  }

  @Test func ofProgressThatIsNotWrittenYet_theLastIsKept() {
    for (form, expected) in [(OutputForm.lines, "3 left\n"), (.datagrams, "3 left"), (.terminal, "\r\u{1b}[K3 left")] {
      var queue = OutputQueue(form)
      for count in 1...3 { queue.show(Array("\(count) left".utf8)) }
      #expect(drain(&queue) == expected)
    }
  }

  @Test func whatIsWrittenOrCannotBe_makesRoom() {
    var queue = OutputQueue(.lines)
    let text = Array("text\n".utf8)
    for _ in 1...2 { queue.put(text) }
    _ = queue.next()
    #expect(queue.wrote(2) == 0 && queue.wrote(3) == OutputQueue.cost(of: text))
    _ = queue.next()
    #expect(queue.discard() == OutputQueue.cost(of: text) && queue.isEmpty)
  }
}

/// Takes nothing until it is opened, then everything.
private final class Gate: OutputTarget {
  private struct State {
    var isOpen: Bool
    var text: [UInt8] = []
  }

  private let state: Mutex<State>

  init(isOpen: Bool) { state = Mutex(State(isOpen: isOpen)) }

  func open() { state.withLock { $0.isOpen = true } }

  var text: String { state.withLock { String(decoding: $0.text, as: UTF8.self) } }

  func write(_ bytes: ArraySlice<UInt8>) -> OutputStep {
    precondition(!bytes.isEmpty, "nothing is to be written")
    return state.withLock { state in
      guard state.isOpen else { return .blocked }
      state.text += bytes
      return .wrote(bytes.count)
    }
  }
}

@Suite struct OutputThreadTests {
  /// Regression: a stderr without a reader stopped every thread that logged.
  @Test(.timeLimit(.minutes(2))) func aTargetThatTakesNothing_holdsUpNothing_andLosesOnlyWhatIsCounted() throws {
    let (held, free) = (Gate(isOpen: false), Gate(isOpen: true))
    let output = OutputThread([(held, .lines), (free, .datagrams)])
    let count = 20_000
    for number in 0..<count { output.channels[0].put("text \(number)\n") }
    output.channels[1].put("ready")
    // Its second is over although nothing was written, and the other target has got what was for it.
    output.flush(within: .milliseconds(500))
    #expect(held.text.isEmpty && free.text == "ready")

    held.open()
    output.flush(within: .seconds(60))
    output.channels[0].put("after\n")
    output.flush(within: .seconds(60))
    let lines = held.text.split(separator: "\n").map(String.init)
    let kept = lines.filter { $0.hasPrefix("text ") }
    #expect(kept == (0..<kept.count).map { "text \($0)" })
    #expect(kept.count * OutputQueue.cost(of: Array("text 1".utf8)) <= OutputChannel.bytesMax)
    #expect(
      Array(lines.dropFirst(kept.count)) == [
        "uploadfs: \(count - kept.count) messages are missing here: what was said before was not read", "after",
      ])
  }

  @Test(.timeLimit(.minutes(2))) func threadsLeaveTextsAtOnce_andNoneIsLost() throws {
    let gate = Gate(isOpen: true)
    let output = OutputThread([(gate, .lines)])
    let threads = (0..<4).compactMap { thread in
      NamedThread("talking", .answering) {
        for number in 0..<500 { output.channels[0].put("\(thread) \(number)\n") }
      }
    }
    for thread in threads { thread.join() }
    output.flush(within: .seconds(60))
    #expect(gate.text.split(separator: "\n").count == 2000)
  }
}

@Suite struct OutputTargetTests {
  /// Regression.
  @Test func aFullPipe_isNotWaitedFor() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let target = StandardDescriptor(ends[1])
    let text = [UInt8](repeating: UInt8(ascii: "x"), count: 4096)[...]
    var written = 0
    while case .wrote(let count) = target.write(text) { written += count }
    #expect(written > 0 && target.write(text) == .blocked)
    // The open file that others share waits as before.
    #expect(fcntl(ends[1], F_GETFL) & O_NONBLOCK == 0)
    var room = [UInt8](repeating: 0, count: 8192)
    #expect(read(ends[0], &room, room.count) == 8192)
    #expect(target.write(text) != .blocked)
  }

  /// Regression: a full socket of the service manager swallowed SIGTERM.
  @Test(arguments: [Int32(1), 2]) func aFullSocket_isNotWaitedFor(kind: Int32) throws {
    var ends: [Int32] = [-1, -1]
    try #require(socketpair(AF_UNIX, kind, 0, &ends) == 0)
    defer { for end in ends { close(end) } }
    let target = StandardDescriptor(ends[1])
    let text = [UInt8](repeating: UInt8(ascii: "x"), count: 1000)[...]
    while case .wrote = target.write(text) {}
    #expect(target.write(text) == .blocked)
  }

  /// Regression.
  @Test func aFullNotificationSocket_isNotWaitedFor() throws {
    let path = "\(NotificationSocketFolder.path)/notify"
    let listener = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    defer {
      close(listener)
      unlink(path)
      rmdir(NotificationSocketFolder.path)
    }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(isBound == 0)
    let target = NotificationSocket(path)
    let text = Array("STATUS=delivering\n".utf8)[...]
    var count = 0
    while case .wrote(text.count) = target.write(text) { count += 1 }
    #expect(count > 0 && target.write(text) == .blocked)
    #expect(NotificationSocket(nil).write(text) == .failed)
  }
}

@Suite struct ServiceNotificationTests {
  @Test(
    arguments: [
      (limit: "30000000", process: "7", pause: Duration.seconds(10)), ("30000000", nil, .seconds(10)),
      ("2", nil, .microseconds(1)),
      // Another process's, none, and what no service manager says.
      ("30000000", "8", nil), ("30000000", "", nil), (nil, nil, nil), (nil, "7", nil), ("0", nil, nil),
      ("-3", nil, nil),
      ("soon", nil, nil), ("99999999999999999999", nil, nil),
    ] as [(limit: String?, process: String?, pause: Duration?)])
  func aWatchdog_isSpokenToThreeTimesAsOftenAsItAsks(limit: String?, process: String?, pause: Duration?) {
    #expect(ServiceNotification.watchdogPause(limit: limit, process: process, own: 7) == pause)
  }
}

private enum NotificationSocketFolder {
  static let path: String = {
    var template = Array("/tmp/uploadfs-output-XXXXXX".utf8CString)
    return mkdtemp(&template).map { String(cString: $0) } ?? "/nonexistent"
  }()
}
