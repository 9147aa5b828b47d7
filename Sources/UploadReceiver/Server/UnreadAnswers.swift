import NIOCore

/// The answers of a connection that are on their way to the socket, and how long that may take. Pure.
///
/// An answer waits while its client does not read: it does not take bytes from the socket, or has closed the windows of
/// HTTP/2. So the time of each is bounded, shorter where many wait, and so are the bytes of all.
struct UnreadAnswers {
  typealias ID = ObjectIdentifier

  private struct Answer {
    var id: ID
    var began: NIODeadline
    var bytes = 0
  }

  private let limits: ConnectionLimits
  /// In the order in which they began. HTTP/1.1 has one at a time, HTTP/2 as many as streams.
  private var answers: [Answer] = []
  private var bytes = 0

  init(_ limits: ConnectionLimits) {
    self.limits = limits
  }

  mutating func begin(_ id: ID, at now: NIODeadline) {
    answers.append(Answer(id: id, began: now))
  }

  mutating func grow(_ id: ID, by count: Int) {
    guard let index = answers.firstIndex(where: { $0.id == id }) else { return }
    answers[index].bytes += count
    bytes += count
  }

  mutating func end(_ id: ID) {
    guard let index = answers.firstIndex(where: { $0.id == id }) else { return }
    bytes -= answers.remove(at: index).bytes
  }

  /// One may be long; several together may not.
  var isTooMuch: Bool { answers.count > 1 && bytes > limits.answerBytesMax }

  /// When the first of them has taken too long; nil when none is on its way.
  var deadline: NIODeadline? {
    let isCrowd = answers.count > limits.unreadAnswersMax
    return answers.lazy.map { answer in
      answer.began + (isCrowd ? limits.crowdedAnswer : limits.answer)
        + .milliseconds(Int64(answer.bytes) * 1000 / Int64(limits.answerBytesPerSecond))
    }.min()
  }
}
