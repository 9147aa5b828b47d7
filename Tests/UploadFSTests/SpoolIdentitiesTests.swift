import FileModel
import Testing

@testable import UploadFS

@Suite struct SpoolIdentitiesTests {
  private func id(_ number: UInt64) -> FileID { FileID(high: 3, low: number) }

  @Test func eachIsGivenOutOnce() {
    var identities = SpoolIdentities(KnownIdentities([7: id(1), 8: id(2)]))
    #expect(identities[7] == id(1) && identities[9] == nil)
    #expect(identities.take(7) == id(1) && identities.take(7) == nil && identities[7] == nil)
    identities.forget(8)
    #expect(identities[8] == nil)
  }

  @Test func whatIsLetGo_isKnownAgain_untilItsNumberIsOfAnotherFile() {
    var identities = SpoolIdentities(KnownIdentities([7: id(1)]))
    #expect(identities.take(7) == id(1))
    identities.keep(id(1), for: 7)
    identities.keep(id(5), for: 9)
    #expect(identities[7] == id(1) && identities[9] == id(5))
    // Another file has the number of one that earlier runs knew, and goes as well.
    identities.keep(id(6), for: 7)
    #expect(identities.take(7) == id(6) && identities[7] == nil)
    identities.forget(9)
    #expect(identities[9] == nil)
  }
}
