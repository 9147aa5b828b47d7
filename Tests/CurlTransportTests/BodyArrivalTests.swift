import Glibc
import Testing

@testable import CurlTransport

/// Over a real connection of this machine, whose other end reads when it is told to.
@Suite struct BodyArrivalTests {
  private let sender: Int32
  private let receiver: Int32

  init() throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listener) }
    var small: Int32 = 8192
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let sender = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    try withUnsafeMutablePointer(to: &address) {
      try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        try #require(bind(listener, address, length) == 0 && listen(listener, 1) == 0)
        try #require(getsockname(listener, address, &length) == 0 && connect(sender, address, length) == 0)
      }
    }
    self.sender = sender
    receiver = accept(listener, nil, nil)
  }

  /// What the sender's socket took.
  private func hand(_ byteCount: Int) -> Int {
    [UInt8](repeating: 7, count: byteCount).withUnsafeBytes {
      send(sender, $0.baseAddress, byteCount, Int32(MSG_DONTWAIT))
    }
  }

  private func receive(_ byteCount: Int) {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var left = byteCount
    while left > 0 {
      let count = recv(receiver, &buffer, min(left, buffer.count), 0)
      guard count > 0 else { return }
      left -= count
    }
  }

  /// SIOCOUTQ, of which the C library has no name in Swift.
  private func untilAcknowledged() {
    var waiting: Int32 = 1
    while waiting > 0, ioctl(sender, 0x5411, &waiting) == 0 { sched_yield() }
  }

  private func end() {
    close(sender)
    close(receiver)
  }

  /// Regression: it counted as sent once it had been handed to the socket. With a head before it, as long as it likes,
  /// as libcurl 8.7 and later count bodies into it.
  @Test(arguments: [0, 700], [false, true]) func whatWaitsInTheSocket_hasNotArrived(headBytes: Int, isShared: Bool) {
    defer { end() }
    var arrival = BodyArrival()
    arrival.begin(on: sender)
    if headBytes > 0 { #expect(hand(headBytes) == headBytes) }
    let handed = hand(4 << 20)
    #expect(handed > 64 << 10)
    arrival.measure(handed: handed, bodyBytes: handed, isShared: isShared)
    #expect(arrival.bytes < handed)
    let before = arrival.bytes
    receive(headBytes + handed)
    untilAcknowledged()
    arrival.measure(handed: handed, bodyBytes: handed, isShared: false)
    #expect(arrival.bytes == handed && before <= arrival.bytes)
  }

  /// What other requests of the connection have sent since is none of it.
  @Test func aRequestThatSharedItsConnection_hasWhatWasHandedOfIt() {
    defer { end() }
    var arrival = BodyArrival()
    arrival.begin(on: sender)
    let handed = hand(100_000)
    receive(handed)
    untilAcknowledged()
    arrival.measure(handed: 20_000, bodyBytes: 1 << 20, isShared: true)
    arrival.measure(handed: 20_000, bodyBytes: 1 << 20, isShared: false)
    #expect(arrival.bytes == 20_000)
  }

  @Test func aConnectionThatIsNotFound_countsWhatIsHanded() {
    defer { end() }
    var arrival = BodyArrival()
    arrival.begin(on: -1)
    arrival.measure(handed: 5, bodyBytes: 10, isShared: false)
    #expect(arrival.bytes == 5)
  }
}
