import Testing
import TransferModel

@testable import CurlTransport

@Suite struct HandshakeJudgeTests {
  private let keys = [[UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32)].compactMap {
    PublicKeyPin(digest: $0)
  }

  private func judge(pins: [PublicKeyPin] = []) -> HandshakeJudge {
    var trust = ServerTrust()
    trust.pins = pins
    return HandshakeJudge(host: "host", trust)
  }

  private func chain(_ change: (inout ChainFacts) -> Void = { _ in }) -> ChainFacts {
    var chain = ChainFacts()
    chain.keys = keys
    chain.validUntilSeconds = 1_800_000_000
    change(&chain)
    return chain
  }

  @Test func pinsAreWrittenAsCurlWritesThem() throws {
    let pin = try #require(PublicKeyPin("sha256//AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="))
    #expect(pin == keys[0] && PublicKeyPin(pin.description) == pin)
    for text in ["", "sha256//", "sha256//AQ==", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "SHA256//AQ=="] {
      #expect(PublicKeyPin(text) == nil, "\(text)")
    }
  }

  @Test func oneKeyOfTheChainMustBePinned() {
    var judge = judge(pins: [keys[1]])
    var goesOn = judge.see(chain())
    #expect(goesOn && judge.report.pinned == 1 && judge.refusal == nil)
    judge = self.judge(pins: [keys[1]])
    goesOn = judge.see(chain { $0.keys.removeLast() })
    #expect(!goesOn && judge.refusal?.kind == .pinMismatch)
    #expect(judge.refusal?.message.contains(keys[0].description) == true)
  }

  @Test func aChainThatIsNotTrustedIsRefusedWhateverIsPinned() {
    for (error, words) in [
      (Int32(10), "has expired on 2027-01-15"), (9, "is not yet valid"), (18, "signed by itself"),
      (20, "authority that this machine does not trust"), (1, "was refused (words)"),
    ] {
      var judge = judge(pins: keys)
      let facts = chain {
        $0.error = error
        $0.errorText = "words"
      }
      let goesOn = judge.see(facts)
      #expect(!goesOn && judge.refusal?.kind == .certificateRefused)
      #expect(judge.refusal?.message.contains(words) == true, "\(judge.refusal?.message ?? "")")
    }
  }
}
