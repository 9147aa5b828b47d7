import FileModel
import Testing

@Suite struct KnownIdentitiesTests {
  private func id(_ number: UInt64) -> FileID { FileID(high: 3, low: number) }

  @Test func eachNumberLeadsToItsCapture_andTheYoungestOfOneNumberHasIt() {
    let numbers: [(inode: UInt64, id: FileID)] = [
      (9, id(4)), (2, id(1)), (9, id(2)), (5, id(3)), (.max, id(5)), (0, id(6)),
    ]
    let known = KnownIdentities(numbers)
    let expected: [(inode: UInt64, number: UInt64)] = [(0, 6), (2, 1), (5, 3), (9, 4), (.max, 5)]
    #expect(known.count == 5 && known.identities == expected.map { id($0.number) })
    for (inode, number) in expected { #expect(known[inode] == id(number)) }
    for inode: UInt64 in [1, 3, 8, 10, .max - 1] { #expect(known[inode] == nil) }
    #expect(KnownIdentities()[0] == nil)
  }

  @Test func whereTwoKnowANumber_theFirstIsRight() {
    let merged = KnownIdentities([1: id(1), 2: id(2)]).merging(KnownIdentities([2: id(3), 4: id(4)]))
    #expect(merged == KnownIdentities([1: id(1), 2: id(2), 4: id(4)]))
  }
}
