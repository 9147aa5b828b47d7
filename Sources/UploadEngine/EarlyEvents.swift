import FileModel

/// What the filesystem reports while the catalog is still being read, in order.
struct EarlyEvents: Sendable {
  enum Event: Sendable {
    case reported(FileEvent)
    case contentWillChange(FileID)
    case contentStays(FileID)
  }

  /// That is far more than anybody does within the second that reading takes.
  static let countMax = 4096

  private(set) var events: [Event] = []

  /// False when there are too many already.
  mutating func keep(_ event: Event) -> Bool {
    guard events.count < Self.countMax else { return false }
    events.append(event)
    return true
  }
}
