/// The numbers that both sides of the chunk protocol keep to. Sizes of chunks and files are the receiver's to state, in
/// its ``Capabilities``.
public enum ProtocolLimits {
  /// The protocol's version, as in the paths.
  public static let version = 1
  /// The longest published name in bytes of UTF-8, separators included.
  public static let nameBytesMax = 4096
  /// The longest component of a published name in bytes of UTF-8; the limit of Linux's filesystems.
  public static let nameComponentBytesMax = 255
  /// A session's nonce.
  public static let nonceBytes = 32
  /// A SHA-256, a Merkle root, a chain tip, a MAC.
  public static let digestBytes = 32
  /// A spool's id, and the mark of one of its starts.
  public static let spoolBytes = 16
  /// The spools of a credential whose last starts a receiver remembers.
  public static let spoolsMax = 1000
  /// The longest session id.
  public static let sessionIDBytesMax = 128
  /// The longest text of an Idempotency-Key, without its quotes.
  public static let idempotencyKeyBytesMax = 255
  /// The longest content type and file id.
  public static let shortTextBytesMax = 255
  /// The largest JSON body that a receiver reads.
  public static let jsonBodyBytesMax = 64 << 10
  /// The longest name of a member of any JSON, as it is written. All that mean something are shorter.
  public static let jsonNameBytesMax = 256
  /// The largest header section that a receiver reads; a whole-file request's name, percent-encoded, fits.
  public static let headerBytesMax = 32 << 10
  /// The most chunks of one upload: the answer to `?digests=1` then stays below 16 MiB, which clients accept.
  public static let chunkCountMax: UInt32 = 200_000
  /// The most indices that one `incomplete` answer lists, lowest first.
  public static let missingIndicesMax = 1000
  /// The most members of a bundle.
  public static let bundleFilesMax = 64
  /// The most plain bytes of a bundle's members together; also the most of their bodies as sent.
  public static let bundleBytesMax = 4 << 20
  /// The most chunks of a run.
  public static let runChunksMax = 128
  /// The most plain bytes of a run's chunks together; also the most of their bodies as sent.
  public static let runBytesMax = 32 << 20
  /// The most ranges of chunks that one request may name as zeros.
  public static let zeroRangesMax = 1000
  /// The longest head of a member of a bundle or a run, its empty line included.
  public static let bundleHeadBytesMax = 16 << 10
  /// How long a commit waits for chunks that are still on their way, at most.
  public static let commitWaitSeconds = 30
  /// How long a session lives after the last request that changed it, unless the receiver is set up otherwise.
  public static let sessionLifetimeSeconds: Int64 = 604_800
}
