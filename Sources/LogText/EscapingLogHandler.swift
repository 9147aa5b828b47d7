public import Logging

/// Passes events on to another handler with all that they say in one visible line each: a file's name or a server's words can
/// neither begin a line of their own nor reach the terminal's controls.
public struct EscapingLogHandler: LogHandler {
  private var next: any LogHandler

  /// In front of another handler.
  public init(_ next: any LogHandler) { self.next = next }

  /// The least level that is logged.
  public var logLevel: Logger.Level {
    get { next.logLevel }
    set { next.logLevel = newValue }
  }

  /// What stands with each event.
  public var metadata: Logger.Metadata {
    get { next.metadata }
    set { next.metadata = newValue.mapValues(Self.visible) }
  }

  /// One of these.
  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { next[metadataKey: key] }
    set { next[metadataKey: key] = newValue.map(Self.visible) }
  }

  /// Escapes, and passes on.
  public func log(event: LogEvent) {
    var event = event
    event.message = Logger.Message(stringLiteral: VisibleText.line(event.message.description))
    event.metadata = event.metadata?.mapValues(Self.visible)
    next.log(event: event)
  }

  private static func visible(_ value: Logger.Metadata.Value) -> Logger.Metadata.Value {
    switch value {
    case .string(let text): .string(VisibleText.line(text))
    case .stringConvertible(let value): .string(VisibleText.line(value.description))
    case .array(let values): .array(values.map(visible))
    case .dictionary(let values): .dictionary(values.mapValues(visible))
    }
  }
}
