import CFuse
import CLinux
import Glibc

/// The one answer that a request is owed.
///
/// Not copyable, and every way to answer consumes it, so that the compiler sees to it that a request is answered once. One
/// that is dropped without an answer gets EIO: a caller that waits for ever is worse.
struct Reply: ~Copyable {
  private let request: fuse_req_t

  init(_ request: fuse_req_t) {
    self.request = request
  }

  deinit {
    fuse_reply_err(request, EIO)
  }

  /// How long the kernel may use what it was told without asking again.
  enum Validity {
    /// Captures change only through this mount, and what the daemon itself removes is announced.
    static let capture = 86400.0
    /// Virtual entries come and go by themselves …
    static let virtualEntry = 1.0
    /// … and their attributes change all the time, as do those of captures that are written past the daemon.
    static let changingAttributes = 0.0
  }

  /// What stat(2) recommends for one read or write. Each is a request to the daemon, so programs that go by it (cp, Python,
  /// rsync) are to make few; beyond this a larger one gains little, and some take a buffer of it for every open file.
  private static let preferredTransferBytes = 128 << 10

  private static func shown(_ status: stat) -> stat {
    var status = status
    if status.st_mode & S_IFMT == S_IFREG { status.st_blksize = blksize_t(preferredTransferBytes) }
    return status
  }

  consuming func done() {
    fuse_reply_err(request, 0)
    discard self
  }

  /// Another thread answers it.
  consuming func deferred() -> DeferredRequest {
    let deferred = DeferredRequest(pointer: request)
    discard self
    return deferred
  }

  consuming func failure(_ error: SystemError) {
    // It is the daemon that has too many open, not the caller.
    fuse_reply_err(request, error.code == EMFILE ? ENFILE : error.code)
    discard self
  }

  /// For forget, which takes no answer.
  consuming func nothing() {
    fuse_reply_none(request)
    discard self
  }

  /// An entry, or a name that does not exist. False when the kernel has dropped the request and so has not counted it.
  consuming func entry(_ found: FoundEntry?, isVirtualPlace: Bool) -> Bool {
    var parameters = Self.parameters(found, isVirtualPlace: isVirtualPlace)
    let result = fuse_reply_entry(request, &parameters)
    discard self
    return result == 0
  }

  /// A created and opened file. False when the opener was interrupted: it will send no release and no forget.
  consuming func created(
    _ found: FoundEntry, _ info: UnsafePointer<fuse_file_info>, changesUnseen: Bool
  ) -> Bool {
    var parameters = Self.parameters(found, isVirtualPlace: false)
    if changesUnseen { parameters.attr_timeout = Validity.changingAttributes }
    let result = fuse_reply_create(request, &parameters, info)
    discard self
    return result == 0
  }

  /// An opened file. False when the opener was interrupted: it will send no release.
  consuming func opened(_ info: UnsafePointer<fuse_file_info>) -> Bool {
    let result = fuse_reply_open(request, info)
    discard self
    return result == 0
  }

  consuming func attributes(_ status: stat, changesByItself: Bool) {
    var status = Self.shown(status)
    fuse_reply_attr(request, &status, changesByItself ? Validity.changingAttributes : Validity.capture)
    discard self
  }

  consuming func link(_ target: [CChar]) {
    fuse_reply_readlink(request, target)
    discard self
  }

  consuming func written(_ count: Int) {
    fuse_reply_write(request, count)
    discard self
  }

  /// Bytes of a file or a directory. False when the kernel has dropped the request.
  @discardableResult
  consuming func bytes(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let result = fuse_reply_buf(request, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
    discard self
    return result == 0
  }

  consuming func statistics(_ space: uploadfs_space) {
    var numbers = statvfs()
    numbers.f_bsize = UInt(space.preferred_bytes)
    numbers.f_frsize = UInt(space.block_bytes)
    numbers.f_blocks = fsblkcnt_t(space.blocks)
    numbers.f_bfree = fsblkcnt_t(space.free_blocks)
    numbers.f_bavail = fsblkcnt_t(space.available_blocks)
    numbers.f_files = fsfilcnt_t(space.files)
    numbers.f_ffree = fsfilcnt_t(space.free_files)
    numbers.f_namemax = UInt(space.name_bytes_max)
    fuse_reply_statfs(request, &numbers)
    discard self
  }

  consuming func position(_ offset: Int64) {
    fuse_reply_lseek(request, off_t(offset))
    discard self
  }

  consuming func ready(_ events: UInt32) {
    fuse_reply_poll(request, events)
    discard self
  }

  static func parameters(_ found: FoundEntry?, isVirtualPlace: Bool) -> fuse_entry_param {
    var parameters = fuse_entry_param()
    guard let found else {
      // Node 0 says "no such name", and for how long.
      parameters.entry_timeout = isVirtualPlace ? 0 : Validity.capture
      return parameters
    }
    parameters.ino = fuse_ino_t(found.node.rawValue)
    parameters.generation = 1
    parameters.attr = shown(found.status)
    parameters.attr_timeout = found.node.isVirtual ? Validity.changingAttributes : Validity.capture
    parameters.entry_timeout = found.node.isVirtual ? Validity.virtualEntry : Validity.capture
    return parameters
  }
}
