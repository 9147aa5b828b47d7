import Glibc

/// Memory that ends at a page which must not be touched: a library that is not instrumented traps there, too, when it
/// reads or writes one byte too many.
public final class GuardedBytes {
  private let mapping: UnsafeMutableRawBufferPointer
  /// The bytes up to the guard.
  public let bytes: UnsafeMutableRawBufferPointer

  /// Zeros.
  public init(count: Int) {
    let page = Int(sysconf(Int32(_SC_PAGESIZE)))
    let length = (count + page - 1) / page * page
    guard
      let start = mmap(nil, length + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      start != MAP_FAILED, mprotect(start + length, page, PROT_NONE) == 0
    else { fatalError("no memory") }
    mapping = UnsafeMutableRawBufferPointer(start: start, count: length + page)
    bytes = UnsafeMutableRawBufferPointer(start: start + length - count, count: count)
  }

  /// A copy.
  public convenience init(_ content: [UInt8]) {
    self.init(count: content.count)
    bytes.copyBytes(from: content)
  }

  /// The bytes in front of ``bytes``, which nothing may have changed.
  public var isFrontUntouched: Bool {
    mapping[..<(bytes.baseAddress.map { $0 - (mapping.baseAddress ?? $0) } ?? 0)].allSatisfy { $0 == 0 }
  }

  deinit { munmap(mapping.baseAddress, mapping.count) }
}
