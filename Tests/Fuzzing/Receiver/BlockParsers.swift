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
  }
]
