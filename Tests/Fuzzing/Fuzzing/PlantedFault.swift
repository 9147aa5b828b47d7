/// A parser with a fault, to show that faults are found: `scripts/fuzz` lists it with FUZZ_PLANTED=yes. It reads a length and
/// believes it.
let plantedFault = FuzzedParser("PlantedFault", bytesMax: 64, words: ["LEN:"], texts: ["LEN:\u{3}abc", "LEN:\u{0}"]) {
  input in
  guard input.bytes.starts(with: Array("LEN:".utf8)), let length = input.bytes.dropFirst(4).first else { return }
  input.bytes.withUnsafeBytes { bytes in
    guard let start = bytes.baseAddress, length < 64 else { return }
    // One read at the end of what is announced: behind the input, when that is shorter.
    require(start.load(fromByteOffset: 4 + Int(length), as: UInt8.self) != 0xfe, "the planted byte is not there")
  }
}
