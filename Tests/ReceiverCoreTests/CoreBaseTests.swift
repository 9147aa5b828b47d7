import ChunkProtocol
import Lookup
import Promises
import ReceiverCore
import Testing

/// Sessions that begin with what is published of their file.
@Suite struct CoreBaseTests {
  private static let published = PublishedContent(
    fileID: "one", sizeBytes: 8, merkleRoot: String(repeating: "0", count: 64), chunkBytes: 4, modifiedNanoseconds: 1)

  private static func opened(
    takesBase: Bool?, size: UInt64? = 8, published: PublishedContent? = published, quota: UInt64? = nil
  ) -> (core: CoreHarness, id: SessionID, isBased: Bool) {
    let core = CoreHarness(quota: quota)
    core.published = published
    let request = core.open(size: size, takesBase: takesBase)
    core.runEffects()
    guard case .sessionOpened(let facts, _, _, _, let isBased)? = core.replies[request]?.last else {
      return (core, SessionID("not opened"), false)
    }
    return (core, facts.sessionID, isBased)
  }

  @Test(.promises("P121")) func whatIsAskedOfIt_waitsUntilItIsKnownWhatItBeginsWith() {
    let (core, id, isBased) = Self.opened(takesBase: true)
    #expect(isBased)
    let query = core.query(id)
    let chunk = core.begin(id, 1, [1, 2, 3, 4])
    #expect(core.replies[query] == nil && core.replies[chunk] == nil)
    guard case .verifySession(id, takesBase: true)? = core.pending.first, core.pending.count == 1 else {
      Issue.record("it is not read")
      return
    }
    core.pending = []
    core.send(.sessionVerified(id, .success([0: CoreHarness.facts([9, 9, 9, 9])])))
    guard case .held(let held)? = core.replies[query]?.last else {
      Issue.record("no answer")
      return
    }
    #expect(held.chunks.keys.sorted() == [0])
    #expect(core.isAdmitted(chunk))
  }

  /// The commit proves what there is by then.
  @Test(.promises("P121")) func whatItBeginsWith_isReplacedByWhatComes() {
    let (core, id, _) = Self.opened(takesBase: true)
    let query = core.query(id)
    core.pending = []
    let (old, new, same): ([UInt8], [UInt8], [UInt8]) = ([1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3])
    core.send(.sessionVerified(id, .success([0: CoreHarness.facts(old), 1: CoreHarness.facts(same)])))
    #expect(core.replies[query] != nil)
    _ = core.put(id, 0, new)
    let commit = core.commit(id, CoreHarness.commitParameters(id, new + same))
    core.runEffects()
    guard case .receipt? = core.replies[commit]?.last else {
      Issue.record("it is not published")
      return
    }
  }

  @Test(.promises("P121")) func withoutBase_nothingWaits() {
    for (takesBase, published) in [(nil, Self.published), (false, Self.published), (true, nil)]
      as [(Bool?, PublishedContent?)]
    {
      let (core, id, isBased) = Self.opened(takesBase: takesBase, published: published)
      #expect(!isBased)
      #expect(core.heldIndices(id) == [])
    }
  }

  /// Regression: each append to an open file was sent as a whole where there was any quota.
  @Test(.promises("P121")) func withAQuota_whatLeavesItsSizeOpenIsBased_whereThatFits() {
    #expect(Self.opened(takesBase: true, size: nil).isBased)
    #expect(Self.opened(takesBase: true, size: 8, quota: 1_000_000).isBased)
    #expect(Self.opened(takesBase: true, size: nil, quota: 8).isBased)
    #expect(!Self.opened(takesBase: true, size: nil, quota: 7).isBased)
  }

  /// Two that begin with it do not have the same bytes of a quota.
  @Test(.promises("P121")) func base_countsForTheQuota_beforeItIsRead() {
    let (core, id, isBased) = Self.opened(takesBase: true, size: nil, quota: 12)
    #expect(isBased)
    #expect(core.refusal(core.open(size: 5, key: "other")) == .quotaExceeded)
    _ = core.query(id)
    core.pending = []
    core.send(.sessionVerified(id, .success([0: CoreHarness.facts([9, 9, 9, 9])])))
    #expect(core.refusal(core.open(size: 9, key: "third")) == .quotaExceeded)
    #expect(core.refusal(core.open(size: 8, key: "fourth")) == nil, "four bytes of it are held")
  }

  /// Whether it fits was found out by a run that is gone: it would be let in beside what was taken since.
  @Test(.promises("P121"), arguments: [nil, 1_000_000] as [UInt64?])
  func afterARestart_whatLeavesItsSizeOpenBeginsEmpty_whereThereIsAQuota(quota: UInt64?) throws {
    let before = CoreHarness(quota: quota)
    before.published = Self.published
    let request = before.open(size: nil, takesBase: true)
    before.runEffects()
    guard case .sessionOpened(let facts, _, _, _, let isBased)? = before.replies[request]?.last else {
      Issue.record("not opened")
      return
    }
    #expect(isBased)
    let core = CoreHarness(quota: quota)
    core.core.recover(open: facts, lastChange: core.now)
    _ = core.query(facts.sessionID)
    guard case .verifySession(facts.sessionID, let takesBase)? = core.pending.first else {
      Issue.record("it is not read")
      return
    }
    #expect(takesBase == (quota == nil))
  }

  @Test(.promises("P121")) func theSameOpeningAgain_isAnsweredAlike() {
    let (core, _, _) = Self.opened(takesBase: true)
    let again = core.open(size: 8, takesBase: true)
    core.runEffects()
    guard case .sessionOpened(_, isNew: false, _, let published, let isBased)? = core.replies[again]?.last else {
      Issue.record("another session")
      return
    }
    #expect(published == Self.published && isBased)
    let other = core.open(size: 8)
    core.runEffects()
    #expect(core.refusal(other) == .idempotencyMismatch)
  }
}
