import ChunkProtocol
import Glibc
import ReceiverCore
import SeededRandom
import Testing

@testable import UploadReceiver

@Suite struct PublishedTreeTests {
  /// What Swift makes one Character with what stands before it, a slash too.
  private static let marks = ["\u{301}", "\u{308}", "\u{200d}", "\u{200c}", "\u{fe0f}", "\u{1f3fd}"].map {
    Array($0.utf8)
  }
  private static let links = ["link", "e", "ab"].map { Array($0.utf8) }

  /// Of any bytes, as clients have them; many begin with a mark.
  private static func component(_ random: inout SplitMix) -> [UInt8] {
    var bytes: [UInt8] = Int.random(in: 0..<3, using: &random) == 0 ? marks.randomElement(using: &random) ?? [] : []
    for _ in 0..<Int.random(in: 1...6, using: &random) {
      switch Int.random(in: 0..<6, using: &random) {
      case 0: bytes += marks.randomElement(using: &random) ?? []
      case 1: bytes.append(UInt8.random(in: 1...255, using: &random))
      case 2, 3: bytes.append(UInt8(ascii: "a") + UInt8.random(in: 0..<5, using: &random))
      default:
        let scalar = Unicode.Scalar(UInt32.random(in: 1...0x10ffff, using: &random)) ?? "x"
        bytes += Array(String(Character(scalar)).utf8)
      }
    }
    return bytes.map { $0 == UInt8(ascii: "/") ? UInt8(ascii: ".") : $0 }
  }

  /// Where the kernel has an open folder.
  private static func place(of folder: FileDescriptor) -> [UInt8] {
    var buffer = [CChar](repeating: 0, count: 8192)
    let count = readlink("/proc/self/fd/\(folder.raw)", &buffer, buffer.count)
    return buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }
  }

  /// Regression: of a folder whose name begins with a combining mark, and a link before it, the link was followed out
  /// of the root.
  @Test(.timeLimit(.minutes(5))) func tenThousandNames_neverLeadOutOfTheRoot() throws {
    let folder = try TemporaryFolder()
    let (root, outside) = ("\(folder.path)/files", "\(folder.path)/outside")
    #expect(mkdir(root, 0o755) == 0 && mkdir(outside, 0o755) == 0)
    for link in Self.links { #expect(symlink(outside, "\(root)/\(String(decoding: link, as: UTF8.self))") == 0) }
    let descriptor = try FileDescriptor.open(root, O_RDONLY | O_DIRECTORY)
    let tree = PublishedTree(
      ConfiguredFolder(path: root, descriptor: descriptor), names: PublishedNames(), beforeSync: { _ in })
    let start = Self.place(of: descriptor)
    var random = SplitMix(seed: 26)
    var (reached, refused) = (0, 0)
    for _ in 0..<10_000 {
      var parts = (0..<Int.random(in: 2...4, using: &random)).map { _ in Self.component(&random) }
      if Int.random(in: 0..<4, using: &random) == 0 {
        parts.insert(Self.links.randomElement(using: &random) ?? [], at: 0)
      }
      let name = PublishedName.encode(Array(parts.joined(separator: [UInt8(ascii: "/")])))
      let first = Array(name.utf8.prefix { $0 != UInt8(ascii: "/") })
      do throws(StoreFailure) {
        let (path, _) = try PublishedTree.split(name)
        let made = try tree.makeFolder(path)
        reached += 1
        #expect(!Self.links.contains(first) && made.isOwn, "\(name.debugDescription)")
        #expect(
          Self.place(of: made.directory) == start + [UInt8(ascii: "/")] + Array(path.utf8), "\(name.debugDescription)")
      } catch {
        refused += 1
        guard case .nameUnreachable = error, Self.links.contains(first) else { throw error }
      }
    }
    #expect(reached > 5000 && refused > 1000)
    #expect(try DirectoryListing.names(in: FileDescriptor.open(outside, O_RDONLY | O_DIRECTORY)).isEmpty)
  }
}
