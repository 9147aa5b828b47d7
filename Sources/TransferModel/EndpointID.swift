/// Names one of a destination's addresses; the first one that was configured is 0.
public struct EndpointID: Hashable, Sendable, Comparable {
  /// The position in the configuration.
  public let index: Int

  /// Names the address at a position.
  public init(_ index: Int) { self.index = index }

  /// The address that was configured first.
  public static let first = EndpointID(0)

  /// Configured order.
  public static func < (left: EndpointID, right: EndpointID) -> Bool { left.index < right.index }
}
