/// What people are to do where a test of a destination finds something, in the words of its protocol and of its settings.
public struct DestinationAdvice: Hashable, Sendable {
  /// Where it is not clear whether the server keeps the conditions that requests make; see ``Destination/underConditionsAlone``.
  public var unclearConditions: String?
  /// Where requests with several small files are refused.
  public var refusedBundles: String?
  /// Where requests with several chunks of a file are refused.
  public var refusedRuns: String?

  /// Nothing, as where no such request is made.
  public init() {}
}
