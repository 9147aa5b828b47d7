import TransferModel

/// Limits of hosted services that cannot be asked for: how long the pieces of an upload may be.
public enum TusProfile: String, CaseIterable, Sendable {
  case standard
  /// Cloudflare Stream: at least 5 MiB, in steps of 256 KiB.
  case cloudflare
  /// Supabase Storage: 6 MiB and nothing else.
  case supabase

  /// The length of a piece, unless another is asked for.
  public var chunkBytes: Int {
    switch self {
    case .standard: UploadConstants.chunkBytesDefault
    case .cloudflare: 16 << 20
    case .supabase: 6 << 20
    }
  }

  /// Whether pieces may have this length.
  public func allows(chunkBytes: Int) -> Bool {
    switch self {
    case .standard: chunkBytes >= TusLimits.partialBytesMin
    case .cloudflare: chunkBytes >= 5 << 20 && chunkBytes.isMultiple(of: 256 << 10)
    case .supabase: chunkBytes == self.chunkBytes
    }
  }

  /// For messages.
  public var wish: String {
    switch self {
    case .standard: "2 MiB at least"
    case .cloudflare: "5 MiB at least, in steps of 256 KiB"
    case .supabase: "6 MiB"
    }
  }
}
