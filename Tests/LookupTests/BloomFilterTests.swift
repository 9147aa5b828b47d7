import Lookup
import Testing

@Suite struct BloomFilterTests {
  private func name(_ number: Int) -> [UInt8] { Array("day/\(number).mov".utf8) }

  @Test(arguments: [1, 64, 65, 1 << 16]) func whatWasPutIn_isFound(bitCount: Int) {
    var filter = BloomFilter(bitCount: bitCount)
    for number in 0..<1000 { filter.insert(name(number)) }
    #expect((0..<1000).allSatisfy { filter.mayContain(name($0)) })
  }

  @Test func ofOthers_fewAreFound() {
    var filter = BloomFilter(bitCount: 20 * 1000)
    #expect(!filter.mayContain(name(0)) && !filter.mayContain([]))
    for number in 0..<1000 { filter.insert(name(number)) }
    // Some 1 in 1,000: 10 expected.
    #expect((1000..<11_000).count { filter.mayContain(name($0)) } < 100)
  }

  @Test func insert_saysWhetherItIsNew() {
    var filter = BloomFilter(bitCount: 1 << 16)
    let (first, second) = (filter.insert(name(1)), filter.insert(name(1)))
    #expect(first && !second)
  }
}
