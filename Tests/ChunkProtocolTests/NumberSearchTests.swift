import ChunkProtocol
import Testing

@Suite struct NumberSearchTests {
  /// The number that is found, and the numbers that were looked at for it.
  private func find(counting counted: Int, isTaken: (Int) -> Bool) -> (number: Int, looks: [Int]) {
    var search = NumberSearch(from: 2, counting: counted)
    var looks: [Int] = []
    while looks.count < 10_000 {
      looks.append(search.number)
      if isTaken(search.number) {
        let goesOn = search.foundTaken()
        #expect(goesOn)
      } else if !search.foundFree() {
        break
      }
    }
    return (search.number, looks)
  }

  @Test(arguments: [0, 1, 2, 15, 16, 17, 18, 19, 20, 33, 100, 5000, 1_000_000])
  func theFirstNumberBehindThoseThatAreTaken_isFoundWithFewLooks(taken: Int) {
    let (number, looks) = find(counting: 17) { $0 < 2 + taken }
    #expect(number == 2 + taken)
    #expect(looks.count <= 60, "\(looks)")
    #expect(looks.starts(with: 2...min(2 + taken, 18)))
  }

  @Test func amongThoseThatAreCounted_noFreeOneIsPassedOver() {
    for free in 2..<1000 { #expect(find(counting: 1000) { $0 != free }.number == free) }
  }
}
