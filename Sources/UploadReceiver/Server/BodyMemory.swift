/// How much memory request bodies may hold.
public enum BodyMemory {
  /// Where there is enough.
  public static let most = 768 << 20

  /// Half of what is available: what is stored passes the kernel's and TLS's memory as well. Never less than the largest body: with less
  /// none of its length would ever be taken.
  public static func bytes(of availableBytes: UInt64?, largestBody: Int) -> Int {
    guard let availableBytes else { return most }
    return min(most, max(largestBody, Int(clamping: availableBytes / 2)))
  }
}
