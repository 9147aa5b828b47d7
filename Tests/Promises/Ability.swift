private import Glibc

/// What a test needs and not every machine has, however much is installed there. Tests/EndToEnd/promises.py has the same list.
public enum Ability: String, CaseIterable, Sendable {
  /// The kernel reads and writes files of the spool past the daemon: libfuse 3.17, Linux 6.9, root.
  case passthrough
  /// O_TMPFILE on the mount: libfuse 3.17.
  case namelessFiles = "nameless-files"
  /// What is promised of an older libfuse only.
  case oldLibfuse = "libfuse-before-3.17"

  /// Why it is not here.
  public enum Lack: Equatable, Sendable {
    /// This machine cannot have it.
    case byNature(String)
    /// This run does not have it; another run on the same machine could.
    case inThisRun(String)
  }

  /// Nil where the ability is here.
  public var lack: Lack? {
    lack(libfuse: Self.libfuse, kernel: Self.kernel, isRoot: geteuid() == 0)
  }

  func lack(libfuse: Int?, kernel: (Int, Int), isRoot: Bool) -> Lack? {
    guard let libfuse else { return .inThisRun("no libfuse in this process") }
    switch self {
    case .oldLibfuse:
      return libfuse >= Self.newLibfuse ? .byNature("libfuse is \(Self.version(libfuse))") : nil
    case .namelessFiles:
      return libfuse < Self.newLibfuse ? .byNature("libfuse is \(Self.version(libfuse)), not 3.17") : nil
    case .passthrough:
      if libfuse < Self.newLibfuse { return .byNature("libfuse is \(Self.version(libfuse)), not 3.17") }
      if kernel < (6, 9) { return .byNature("Linux is \(kernel.0).\(kernel.1), not 6.9") }
      return isRoot ? nil : .inThisRun("needs root")
    }
  }

  private static let newLibfuse = 317

  /// As libfuse numbers itself, 314 for 3.14; nil where no test of this process is linked with it. Looked up by its name, so
  /// that this target needs none of the product.
  private static var libfuse: Int? {
    guard let symbol = dlsym(nil, "fuse_version") else { return nil }
    return Int(unsafeBitCast(symbol, to: (@convention(c) () -> CInt).self)())
  }

  private static func version(_ libfuse: Int) -> String { "\(libfuse / 100).\(libfuse % 100)" }

  private static var kernel: (Int, Int) {
    var names = utsname()
    guard uname(&names) == 0 else { return (0, 0) }
    let release = withUnsafeBytes(of: &names.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    return numbers.count == 2 ? (numbers[0], numbers[1]) : (0, 0)
  }
}
