/// How fast all uploads together may send, by the time of day. Pure: the time comes in.
public struct RateTimetable: Hashable, Sendable {
  /// A part of each day.
  public struct Window: Hashable, Sendable {
    /// Minutes after midnight; a window that ends before it begins goes over midnight.
    public let startMinute, endMinute: Int
    /// Nil for no bound.
    public let bytesPerSecond: UInt64?

    /// A window.
    public init(startMinute: Int, endMinute: Int, bytesPerSecond: UInt64?) {
      self.startMinute = startMinute
      self.endMinute = endMinute
      self.bytesPerSecond = bytesPerSecond
    }

    fileprivate func contains(_ minute: Int) -> Bool {
      startMinute < endMinute
        ? (startMinute..<endMinute).contains(minute) : minute >= startMinute || minute < endMinute
    }
  }

  /// Outside of all windows; nil for no bound.
  public var bytesPerSecond: UInt64?
  /// The first one that has the time decides.
  public var windows: [Window]

  /// A timetable; without anything there is no bound.
  public init(bytesPerSecond: UInt64? = nil, windows: [Window] = []) {
    self.bytesPerSecond = bytesPerSecond
    self.windows = windows
  }

  /// There is a time at which it bounds anything.
  public var isBound: Bool { bytesPerSecond != nil || windows.contains { $0.bytesPerSecond != nil } }

  /// What may be sent in a second at this minute of the local day, 0 to 1439; nil for no bound.
  public func bytesPerSecond(atMinute minute: Int) -> UInt64? {
    windows.first { $0.contains(minute) }.map(\.bytesPerSecond) ?? bytesPerSecond
  }
}
