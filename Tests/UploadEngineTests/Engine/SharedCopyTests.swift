import FileModel
import Lookup
import Testing

@testable import UploadEngine

@Suite struct SharedCopyTests {
  private struct Holder: CopyHolder {
    var delivered: [EvictionCandidate]

    func evictionCandidates(countMax: Int) -> [EvictionCandidate] { Array(delivered.prefix(countMax)) }
    func mayLose(_ candidate: EvictionCandidate) -> Bool { delivered.contains(candidate) }
  }

  /// Regression: as many files as were asked for, which one destination had and the other one lacked, kept all later ones in the spool.
  @Test func whatOneLacks_keepsNothingBehindItFromGoing() {
    let all = (1...300).map { EvictionCandidate(ImaginaryFile($0, "\($0)", size: 1).snapshot) }
    let (main, archive) = (Holder(delivered: all), Holder(delivered: Array(all[200...])))
    #expect(SharedCopy.candidates([main, archive], countMax: 64) == Array(all[200..<264]))
    #expect(SharedCopy.candidates([archive, main], countMax: 400) == Array(all[200...]))
    #expect(SharedCopy.candidates([main, Holder(delivered: [])], countMax: 64).isEmpty)
  }
}
