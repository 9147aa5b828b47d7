import CFilesystemCalls
import Foundation
import Glibc

/// What an actor is told.
package enum Order: Codable, Sendable {
  /// Makes the call, at once or on a thread of its own, so that others go on while it blocks.
  case make(Call, number: Int, onThread: Bool)
  /// Ends a repetition.
  case stop(number: Int)
}

/// What an actor says.
package struct Reply: Codable, Sendable {
  package let number: Int
  package let answer: Answer

  package init(number: Int, answer: Answer) {
    self.number = number
    self.answer = answer
  }
}

/// Messages through a socket between a test and an actor: four bytes of length, and JSON.
package struct Conversation: Sendable {
  /// Why a message did not come.
  package enum Failure: Error { case closed, late, malformed }

  package let socket: Int32

  package init(socket: Int32) { self.socket = socket }

  package func send(_ message: some Encodable) throws {
    let body = try JSONEncoder().encode(message)
    var frame = withUnsafeBytes(of: UInt32(body.count)) { Array($0) }
    frame += body
    var sent = 0
    while sent < frame.count {
      let count = frame.withUnsafeBytes { bytes in
        Glibc.send(socket, bytes.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw Failure.closed }
      sent += count
    }
  }

  /// The next message; nil at the end. Without a deadline it is waited for.
  package func receive<Message: Decodable>(
    _: Message.Type, until deadline: ContinuousClock.Instant? = nil
  ) throws -> Message? {
    guard let length = try bytes(4, deadline) else { return nil }
    let count = length.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
    guard let body = try bytes(Int(count), deadline) else { throw Failure.closed }
    return try JSONDecoder().decode(Message.self, from: Data(body))
  }

  /// The descriptor that follows a message.
  package func receiveDescriptor(until deadline: ContinuousClock.Instant) throws -> Int32 {
    try wait(deadline)
    let descriptor = calls_receive_descriptor(socket)
    guard descriptor >= 0 else { throw Failure.malformed }
    return descriptor
  }

  private func bytes(_ count: Int, _ deadline: ContinuousClock.Instant?) throws -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    var done = 0
    while done < count {
      try wait(deadline)
      let got = bytes.withUnsafeMutableBytes { recv(socket, $0.baseAddress.map { $0 + done }, count - done, 0) }
      if got < 0, errno == EINTR { continue }
      if got == 0, done == 0 { return nil }
      guard got > 0 else { throw Failure.closed }
      done += got
    }
    return bytes
  }

  private func wait(_ deadline: ContinuousClock.Instant?) throws {
    guard let deadline else { return }
    let left = deadline - ContinuousClock.now
    let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000
    var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
    let result = poll(&entry, 1, Int32(clamping: max(0, milliseconds)))
    if result == 0 { throw Failure.late }
  }
}
