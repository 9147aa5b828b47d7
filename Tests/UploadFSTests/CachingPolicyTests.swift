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
  private static func passing(
    _ opening: CachingPolicy.Opening, unseen: Bool = false, setID: Bool = false
  ) -> CachingPolicy.Opening {
    var opening = opening
    opening.mayPass = true
    opening.mayWriteUnseen = unseen
    opening.hasSetIDBits = setID
    return opening
  }

  // MARK: Without passthrough

  /// Regression: RELEASE comes after close(2) has returned, and whoever opened the file in between could not map it shared.
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

  @Test func aReaderPassesTheDaemonAlsoBesideADirectWriter() {
    var policy = CachingPolicy()
    #expect(policy.open(Self.passing(Self.writing)).route == .direct, "its writes are to be seen")
    #expect(policy.open(Self.passing(Self.reading)).route == .passing)
  }

  @Test func aWriterPassesWhereNobodyHasToKnowWhatItWrites() {
    var policy = CachingPolicy()
    let choice = policy.open(Self.passing(Self.writing, unseen: true))
    #expect(choice.route == .passing)
    #expect(choice.writesUnseen)
    #expect(!choice.mayLeaveMapping, "a descriptor that only writes cannot be mapped")
  }

  @Test func aFileOpenedForBothIsCachedBecauseItsMappingsCouldOutliveIt() {
    var policy = CachingPolicy()
    #expect(policy.open(Self.passing(Self.both, unseen: true)).route == .cached)
  }

  @Test func whileAHandlePassesEveryHandlePasses() {
    var policy = CachingPolicy()
    let reader = policy.open(Self.passing(Self.reading))
    let writer = policy.open(Self.passing(Self.writing))
    #expect(writer.route == .passingMappings)
    #expect(!writer.writesUnseen, "its writes come to the daemon, and it cannot be mapped")
    let editor = policy.open(Self.passing(Self.both, unseen: true))
    #expect(editor.route == .passingMappings)
    #expect(editor.writesUnseen && editor.mayLeaveMapping)
    #expect(policy.open(Self.passing(Self.writing, setID: true)).route == .passing, "the kernel takes the bits away")
    policy.closed(reader, isResting: false)
    #expect(policy.open(Self.passing(Self.both)).route.passes)
  }

  @Test func whileAHandleIsCachedNonePasses() {
    var policy = CachingPolicy()
    let editor = policy.open(Self.passing(Self.both))
    #expect(policy.open(Self.passing(Self.reading)).route == .cached)
    #expect(policy.open(Self.passing(Self.writing, unseen: true)).route == .cached)
    policy.closed(editor, isResting: false)
    #expect(policy.cachedHandles == 2)
  }

  /// A mapping of a direct handle makes the kernel cache the file, and then it refuses handles that pass.
  @Test func besideADirectHandleThatMayBeMappedNonePasses() {
    var policy = CachingPolicy()
    _ = policy.open(Self.passing(Self.writing))
    _ = policy.open(Self.reading)
    #expect(policy.open(Self.passing(Self.reading)).route == .direct)
  }

  @Test(.promises("S8a")) func whatWasWrittenPastTheCacheIsReadAgain() {
    var policy = CachingPolicy()
    let writer = policy.open(Self.passing(Self.writing, unseen: true))
    policy.closed(writer, isResting: false)
    #expect(policy.open(Self.reading) == Choice(opening: Self.reading, route: .cached, keepsCache: false))
  }

  @Test func asLongAsAMappingMayBeLeftNothingIsCached() {
    var policy = CachingPolicy()
    let reader = policy.open(Self.passing(Self.reading))
    let editor = policy.open(Self.passing(Self.both))
    policy.closed(reader, isResting: false)
    policy.closed(editor, isResting: false)
    policy.leftMapping()
    let second = policy.open(Self.passing(Self.both))
    #expect(second.route == .passingMappings)
    policy.closed(second, isResting: false)
    policy.mappingIsGone()
    #expect(policy.open(Self.passing(Self.both)).route == .cached)
  }

  /// Whatever comes in whatever order: the kernel refuses handles that pass beside cached ones, and the counts come back.
  @Test func cachedAndPassingHandlesNeverMeet() {
    for seed in UInt64(0)..<200 {
      var numbers = seed &* 2_654_435_761 &+ 1
      func next(_ bound: UInt64) -> UInt64 {
        numbers = numbers &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (numbers >> 33) % bound
      }
      var policy = CachingPolicy()
      var open: [Choice] = []
      for _ in 0..<100 {
        if !open.isEmpty, next(2) == 0 {
          policy.closed(open.remove(at: Int(next(UInt64(open.count)))), isResting: false)
        } else {
          let kind = [Self.reading, Self.writing, Self.both][Int(next(3))]
          open.append(policy.open(Self.passing(kind, unseen: next(2) == 0, setID: next(8) == 0)))
        }
        #expect(policy.cachedHandles == 0 || policy.passingHandles == 0, "seed \(seed)")
        #expect(policy.passingHandles == open.count { $0.route.passes }, "seed \(seed)")
        // While one passes, the kernel takes no direct handle that came later; earlier ones could only write.
        if policy.passingHandles > 0 { #expect(policy.mappableDirectHandles == 0, "seed \(seed)") }
      }
      for choice in open { policy.closed(choice, isResting: false) }
      #expect(policy.cachedHandles == 0 && policy.passingHandles == 0 && policy.directWriters == 0, "seed \(seed)")
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
