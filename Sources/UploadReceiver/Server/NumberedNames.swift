import Logging
import ReceiverCore
import Synchronization

/// Says and counts which files were published under a number, because their name is another capture's; and says which ones have taken
/// their name from another one.
final class NumberedNames: Sendable {
  private let logger: Logger
  private let users: UserNumbers
  private let counter = Atomic(0)

  init(_ logger: Logger, _ users: UserNumbers) {
    self.logger = logger
    self.users = users
  }

  /// Since the start.
  var count: Int { counter.load(ordering: .relaxed) }

  func note(_ result: PublicationResult, of publication: Publication) {
    let name = publication.receipt.name
    let metadata = users.metadata(of: publication.credential)
    if let holder = result.takenFrom {
      logger.notice(
        "\((result.publishedAs ?? name).debugDescription) takes the place of another file, as its client asks for (if-exists replace): \(holder)",
        metadata: metadata)
    }
    guard let publishedAs = result.publishedAs, let holder = result.nameHolder else { return }
    counter.wrappingAdd(1, ordering: .relaxed)
    logger.notice(
      "\(name.debugDescription) is published as \(publishedAs.debugDescription): the name is taken, \(holder)",
      metadata: metadata)
  }
}
