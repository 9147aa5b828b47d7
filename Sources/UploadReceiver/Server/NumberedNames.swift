import Logging
import ReceiverCore
import Synchronization

/// Says and counts which files were published under a number, because their name is another capture's.
final class NumberedNames: Sendable {
  private let logger: Logger
  private let counter = Atomic(0)

  init(_ logger: Logger) {
    self.logger = logger
  }

  /// Since the start.
  var count: Int { counter.load(ordering: .relaxed) }

  func note(_ result: PublicationResult, of name: String) {
    guard let publishedAs = result.publishedAs, let holder = result.nameHolder else { return }
    counter.wrappingAdd(1, ordering: .relaxed)
    logger.notice(
      "\(name.debugDescription) is published as \(publishedAs.debugDescription): the name is taken, \(holder)")
  }
}
