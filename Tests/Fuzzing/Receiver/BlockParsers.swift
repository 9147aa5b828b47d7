import ChunkProtocol
import Fuzzing
import Integrity

let blockParsers: [FuzzedParser] = [
  FuzzedParser("LZ4", bytesMax: 4096) {
    [[UInt8](repeating: 0, count: 1000), Array("abcabcabcabcabcabcabcabc0123456789".utf8), [1]].map { plain in
      // The length that is announced stands behind the block.
      compressed(plain) + [UInt8(plain.count & 0xff), UInt8(plain.count >> 8)]
    } + [[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0], [0x10, 0x61, 0, 0, 1, 0]]
  } test: { input in
    var input = input
    let plainBytes = input.choose() << 8 | input.choose()
    let block = GuardedBytes(input.bytes)
    let target = GuardedBytes(count: plainBytes)
    _ = LZ4.decompress(UnsafeRawBufferPointer(block.bytes), into: target.bytes)
    require(target.isFrontUntouched, "nothing in front of the target is written")
    let packed = GuardedBytes(compressed(input.bytes))
    guard packed.bytes.count > 0 else { return }
    let plain = GuardedBytes(count: input.bytes.count)
    require(LZ4.decompress(UnsafeRawBufferPointer(packed.bytes), into: plain.bytes), "what is compressed is a block")
    require(plain.bytes.elementsEqual(input.bytes), "what is compressed comes back")
  },
  FuzzedParser("Zstandard", bytesMax: 4096) {
    let texts = [[UInt8](repeating: 0, count: 1000), Array("abcabcabcabcabcabcabcabc0123456789".utf8), [1]]
    // Behind the frame stand how many times 64 KiB are announced (none from 8 on), the filter, and the rest of the length.
    var inputs: [[UInt8]] = []
    for plain in texts {
      let size = [UInt8(plain.count >> 8), UInt8(plain.count & 0xff)]
      inputs.append(framed(plain) + [8, 0, 0] as [UInt8] + size)
      inputs.append(framed(plain) + [8, 3, 11] as [UInt8] + size)
    }
    inputs.append(handmadeFrame + [8, 2, 1, 0, 200] as [UInt8])
    inputs.append([0x28, 0xB5, 0x2F, 0xFD, 0, 0xFF, 0x23, 0x03, 0, 9, 8, 0, 0, 0, 100])
    // The longest block; three of them are more than a block of the filter.
    let runs = (0..<3).flatMap { [$0 == 2 ? 0x03 : 0x02, 0, 0x10, 9 + $0] as [UInt8] }
    let frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0, 7 << 3] + runs
    inputs += [frame + [6, 3, 11, 0, 0] as [UInt8], frame + [6, 1, 0, 0, 0] as [UInt8]]
    inputs.append(framed([UInt8](repeating: 7, count: 300_000)) + [4, 2, 14, 0x93, 0xE0] as [UInt8])
    return inputs
  } test: { input in
    var input = input
    let shortBytes = input.choose() | input.choose() << 8
    let stride = input.choose() % 64 + 1
    let filter = RecordFilter(stride: stride, difference: [0, 1, 2, 4, 8][input.choose() % 5]) ?? .none
    let units = input.choose()
    let plainBytes = shortBytes | (units < 8 ? units << 16 : 0)
    let frame = GuardedBytes(input.bytes)
    let target = GuardedBytes(count: plainBytes)
    _ = Zstandard.decompress(UnsafeRawBufferPointer(frame.bytes), undoing: filter, into: target.bytes)
    require(target.isFrontUntouched, "nothing in front of the target is written")
    let filtered = GuardedBytes(input.bytes)
    let scratch = GuardedBytes(count: input.bytes.count)
    filter.apply(to: filtered.bytes, scratch: scratch.bytes)
    require(filtered.isFrontUntouched && scratch.isFrontUntouched, "nothing in front of the filtered bytes is written")
    let packed = GuardedBytes(framed(Array(filtered.bytes)))
    guard packed.bytes.count > 0 else { return }
    let plain = GuardedBytes(count: input.bytes.count)
    require(
      Zstandard.decompress(UnsafeRawBufferPointer(packed.bytes), undoing: filter, into: plain.bytes),
      "what is compressed is a frame")
    require(plain.bytes.elementsEqual(input.bytes), "what is compressed comes back")
  },
]

/// The 16-bit numbers from 0 to 99 …
let counted: [UInt8] = [UInt8](0..<100).flatMap { [$0, 0] as [UInt8] }
/// … as docs/protocol.md has them.
let handmadeEncoding = ChunkEncoding.zstd(RecordFilter(stride: 2, difference: 2) ?? .none)
let handmadeFrame: [UInt8] = [
  0x28, 0xB5, 0x2F, 0xFD, 0x20, 200, 0x08, 0, 0, 0, 0x1A, 0x03, 0, 1, 0x23, 0x03, 0, 0,
]

func framed(_ plain: [UInt8]) -> [UInt8] {
  guard let compressor = ZstandardCompressor() else { return [] }
  return [UInt8](unsafeUninitializedCapacity: plain.count + 64) { target, count in
    count =
      plain.withUnsafeBytes { compressor.compress($0, level: 3, into: UnsafeMutableRawBufferPointer(target)) } ?? 0
  }
}
