import Promises
import Testing

@testable import UploadFS

struct CachingPolicyTests {
  private typealias Choice = CachingPolicy.Choice
  private typealias Route = CachingPolicy.Route

  private static let reading = CachingPolicy.Opening(reads: true, writes: false)
  private static let writing = CachingPolicy.Opening(reads: false, writes: true)
  private static let both = CachingPolicy.Opening(reads: true, writes: true)

  /// On a kernel that takes files of the spool.
  private static func passthrough(
    _ opening: CachingPolicy.Opening, unseen: Bool = false, setID: Bool = false
  ) -> CachingPolicy.Opening {
    var opening = opening
    opening.mayPassThrough = true
    opening.mayWriteUnseen = unseen
    opening.hasSetIDBits = setID
    return opening
  }

  // MARK: Without passthrough

  /// Regression: RELEASE comes after close(2) has returned, and a program that opened the file in between could not map it shared.
  @Test func writerThatHasClosed_doesNotMakeTheNextOpenDirect() {
    var policy = CachingPolicy()
    let writer = policy.open(Self.writing)
    #expect(writer.route == .direct)
    policy.rested()
    let reader = policy.open(Self.reading)
    #expect(reader.route == .cached)
    #expect(!reader.keepsCache, "what was written past the cache must be read again")
    policy.closed(writer, isResting: true)
    #expect(policy.directWriters == 0)
    policy.resumed()
    #expect(policy.open(Self.reading).route == .direct)
  }

  @Test func aLoneWriterGoesPastTheCacheAndAReaderUsesIt() {
    var policy = CachingPolicy()
    let writer = policy.open(Self.writing)
    #expect(writer.route == .direct)
    policy.closed(writer, isResting: false)
    #expect(policy.open(Self.reading) == Choice(opening: Self.reading, route: .cached, keepsCache: false))
    #expect(policy.open(Self.reading) == Choice(opening: Self.reading, route: .cached, keepsCache: true))
    #expect(policy.open(Self.both).route == .cached, "so that a shared mapping is possible")
  }

  @Test func aReaderBesideADirectWriterIsDirectSoThatItCannotSeeStalePages() {
    var policy = CachingPolicy()
    _ = policy.open(Self.writing)
    #expect(policy.open(Self.reading).route == .direct)
    #expect(policy.open(Self.both).route == .direct)
  }

  @Test func aWriterBesideACachedReaderUsesTheCache() {
    var policy = CachingPolicy()
    _ = policy.open(Self.reading)
    #expect(policy.open(Self.writing).route == .cached)
  }

  @Test(.promises("S22b")) func aFileWithSetIDBitsIsWrittenThroughTheCache() {
    var policy = CachingPolicy()
    var opening = Self.writing
    opening.hasSetIDBits = true
    #expect(policy.open(opening).route == .cached)
  }

  // MARK: With passthrough

  /// Regression: the kernel may take the reader's answer first, and refuses the writer then.
  @Test(.promises("S50c")) func besideADirectWriter_noReaderPasses_untilItIsReleased() {
    var policy = CachingPolicy()
    let writer = policy.open(Self.passthrough(Self.writing))
    #expect(writer.route == .direct, "its writes are to be seen")
    let reader = policy.open(Self.passthrough(Self.reading))
    #expect(reader.route == .direct)
    policy.rested()
    let other = policy.open(Self.passthrough(Self.reading))
    #expect(other.route == .cached, "the release is still to come")
    policy.closed(writer, isResting: true)
    policy.closed(reader, isResting: false)
    policy.closed(other, isResting: false)
    #expect(policy.open(Self.passthrough(Self.reading)).route == .passthrough)
  }

  @Test func aWriterPassesWhereItsWritesNeedNotBeSeen() {
    var policy = CachingPolicy()
    let choice = policy.open(Self.passthrough(Self.writing, unseen: true))
    #expect(choice.route == .passthrough)
    #expect(choice.writesUnseen)
    #expect(!choice.mayLeaveMapping, "a descriptor that only writes cannot be mapped")
  }

  @Test func aFileOpenedForBothIsCachedBecauseItsMappingsCouldOutliveIt() {
    var policy = CachingPolicy()
    #expect(policy.open(Self.passthrough(Self.both, unseen: true)).route == .cached)
  }

  @Test func whileAHandlePassesEveryHandlePasses() {
    var policy = CachingPolicy()
    let reader = policy.open(Self.passthrough(Self.reading))
    let writer = policy.open(Self.passthrough(Self.writing))
    #expect(writer.route == .passthroughDirect)
    #expect(!writer.writesUnseen, "its writes come to the daemon, and it cannot be mapped")
    // Regression: what the kernel copies out of a direct handle by itself comes from pages that go stale.
    let editor = policy.open(Self.passthrough(Self.both))
    #expect(editor.route == .passthrough)
    #expect(editor.writesUnseen && editor.mayLeaveMapping)
    #expect(
      policy.open(Self.passthrough(Self.writing, setID: true)).route == .passthrough, "the kernel takes the bits away")
    policy.closed(reader, isResting: false)
    #expect(policy.open(Self.passthrough(Self.both)).route.isPassthrough)
  }

  @Test func whileAHandleIsCachedNonePasses() {
    var policy = CachingPolicy()
    let editor = policy.open(Self.passthrough(Self.both))
    #expect(policy.open(Self.passthrough(Self.reading)).route == .cached)
    #expect(policy.open(Self.passthrough(Self.writing, unseen: true)).route == .cached)
    policy.closed(editor, isResting: false)
    #expect(policy.cachedHandles == 2)
  }

  @Test(.promises("S8a")) func whatWasWrittenPastTheCacheIsReadAgain() {
    var policy = CachingPolicy()
    let writer = policy.open(Self.passthrough(Self.writing, unseen: true))
    policy.closed(writer, isResting: false)
    #expect(policy.open(Self.reading) == Choice(opening: Self.reading, route: .cached, keepsCache: false))
  }

  @Test func asLongAsAMappingMayBeLeftNothingIsCached() {
    var policy = CachingPolicy()
    let reader = policy.open(Self.passthrough(Self.reading))
    let editor = policy.open(Self.passthrough(Self.both))
    policy.closed(reader, isResting: false)
    policy.closed(editor, isResting: false)
    policy.leftMapping()
    let second = policy.open(Self.passthrough(Self.both))
    #expect(second.route == .passthrough)
    policy.closed(second, isResting: false)
    policy.mappingIsGone()
    #expect(policy.open(Self.passthrough(Self.both)).route == .cached)
  }

  /// What Linux lets be opened of one inode (fs/fuse/iomode.c, since 6.9).
  private struct Inode {
    var passthrough = 0
    var cached = 0

    /// Takes the daemon's answer; false when the open fails with EIO.
    mutating func takes(_ choice: Choice) -> Bool {
      if choice.route.isPassthrough ? cached > 0 : passthrough > 0 { return false }
      count(choice, 1)
      return true
    }

    mutating func count(_ choice: Choice, _ change: Int) {
      if choice.route.isPassthrough { passthrough += change }
      // A mapping of a direct handle makes the kernel cache, too.
      if choice.route == .cached || (choice.route == .direct && choice.opening.reads) { cached += change }
    }
  }

  /// Regression: opens, answers and releases in any order; the kernel takes the answers in an order of its own, and
  /// says that a handle is released when it has forgotten it.
  @Test(.promises("S50c")) func noOpenIsRefused_inWhateverOrderTheAnswersCome() {
    for seed in UInt64(0)..<500 {
      var numbers = seed &* 2_654_435_761 &+ 1
      func next(_ bound: Int) -> Int {
        numbers = numbers &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((numbers >> 33) % UInt64(bound))
      }
      var (policy, inode) = (CachingPolicy(), Inode())
      var (answered, open, closing): ([Choice], [Choice], [Choice]) = ([], [], [])
      func release() { policy.closed(closing.remove(at: next(closing.count)), isResting: false) }
      for _ in 0..<100 {
        switch next(4) {
        case 0:
          let kind = [Self.reading, Self.writing, Self.both][next(3)]
          var opening = Self.passthrough(kind, unseen: next(2) == 0, setID: next(8) == 0)
          // By a rule that changed with a name.
          opening.mayPassThrough = next(8) > 0
          answered.append(policy.open(opening))
        case 1 where !answered.isEmpty:
          let choice = answered.remove(at: next(answered.count))
          let isTaken = inode.takes(choice)
          #expect(isTaken, "seed \(seed)")
          open.append(choice)
        case 2 where !open.isEmpty:
          let choice = open.remove(at: next(open.count))
          inode.count(choice, -1)
          closing.append(choice)
        case 3 where !closing.isEmpty: release()
        default: break
        }
        let all = answered + open + closing
        #expect(policy.passthroughHandles == 0 || policy.servedHandles == 0, "seed \(seed)")
        #expect(policy.passthroughHandles == all.count { $0.route.isPassthrough }, "seed \(seed)")
        #expect(all.allSatisfy { $0.route != .passthroughDirect || !$0.opening.reads }, "seed \(seed)")
      }
      closing += answered + open
      while !closing.isEmpty { release() }
      #expect(policy.cachedHandles == 0 && policy.servedHandles == 0 && policy.passthroughHandles == 0, "seed \(seed)")
      #expect(policy.directWriters == 0, "seed \(seed)")
    }
  }
}

extension CachingPolicy {
  fileprivate mutating func open(_ opening: Opening) -> Choice {
    let choice = choice(for: opening)
    opened(choice)
    return choice
  }
}
