import Testing
import UploadSimulation

/// A seed that once found a mistake.
struct FoundSeed: Hashable, Sendable, CustomTestStringConvertible {
  var scenario: String
  var seed: UInt64
  /// What went wrong.
  var story: String

  var testDescription: String { "\(scenario) \(seed): \(story)" }
}

@Suite struct SimulationTests {
  static let found = [
    FoundSeed(scenario: "network", seed: 1155, story: "a publication that was given up overtook its successor"),
    FoundSeed(scenario: "black-hole", seed: 1061, story: "bytes of before an answer counted as progress after it"),
    FoundSeed(scenario: "disk", seed: 480_613_431, story: "a lost publication overtook its successor"),
    FoundSeed(scenario: "everything", seed: 1056, story: "a name showed what it had shown before"),
    FoundSeed(scenario: "everything", seed: 1059, story: "a name was confirmed after a crash before it was durable"),
    FoundSeed(scenario: "slow", seed: 118_725_730, story: "a session was found published while chunks waited"),
    FoundSeed(scenario: "slow", seed: 1227, story: "a session was found published while chunks waited"),
    FoundSeed(scenario: "slow", seed: 1105, story: "a file ended at a conflict"),
    FoundSeed(scenario: "everything", seed: 1129, story: "an older content was found published while chunks waited"),
    FoundSeed(scenario: "clock", seed: 1285, story: "a second name went away before it was published"),
    FoundSeed(scenario: "proxy", seed: 1001, story: "an answer to an earlier session's commit took chunks back"),
    FoundSeed(scenario: "everything", seed: 1014, story: "an answer to an earlier session's commit took chunks back"),
    FoundSeed(scenario: "hangs", seed: 43, story: "a chunk that hung in a published session was sent in no other"),
    FoundSeed(scenario: "hasty", seed: 42, story: "a publication that was given up overtook its successor"),
    FoundSeed(scenario: "addresses", seed: 34, story: "the address that failed was tried again and again"),
    FoundSeed(scenario: "proxy", seed: 199_239_257, story: "an answer to an earlier session's commit took chunks back"),
    FoundSeed(
      scenario: "everything", seed: 899_301_671, story: "each connection that an address lost made twelve anew"),
    FoundSeed(scenario: "hangs", seed: 2_000_054_551, story: "chunks that followed minutes without any were cancelled"),
    FoundSeed(scenario: "hangs", seed: 2_000_000_497, story: "a request was cancelled although it moved"),
    FoundSeed(scenario: "hangs", seed: 2_000_028_163, story: "a request was cancelled although it moved"),
    FoundSeed(
      scenario: "everything", seed: 2_000_009_285, story: "the invariant took old large buffers for new small ones"),
    FoundSeed(
      scenario: "pressure", seed: 2_000_018_604, story: "the invariant took old large buffers for new small ones"),
    FoundSeed(
      scenario: "pressure", seed: 2_000_081_010, story: "the invariant took old large buffers for new small ones"),
    FoundSeed(scenario: "shortage", seed: 2_000_049_370, story: "the session with released parts was given up"),
    FoundSeed(scenario: "clock", seed: 2_000_001_949, story: "a changed file kept why it had not been delivered"),
    FoundSeed(scenario: "tus", seed: 9, story: "one 404 at the creation of an upload failed a file"),
    FoundSeed(scenario: "tus", seed: 140, story: "the session of an empty file was committed without a chunk"),
    FoundSeed(scenario: "tus", seed: 579_735_633, story: "one 404 to a question about a session failed a file"),
    FoundSeed(scenario: "draft", seed: 74_713_513, story: "one 404 to the first question failed a file"),
    FoundSeed(scenario: "lying-tus", seed: 127, story: "a success without a word of tus was a delivery"),
    FoundSeed(scenario: "lying-tus", seed: 7_000_005_724, story: "every good answer brought a wave of connections"),
    FoundSeed(
      scenario: "several", seed: 8_700_018_704,
      story: "what an earlier run had sent late was taken for the beginning of another content"),
    FoundSeed(scenario: "several", seed: 456, story: "every good answer brought a wave of connections"),
    FoundSeed(
      scenario: "shortage", seed: 7_100_006_908,
      story: "a file that was cut short failed for parts that it no longer had"),
    FoundSeed(
      scenario: "waiting", seed: 7_200_000_419, story: "the simulated receiver published zeros for a file that was gone"
    ),
    FoundSeed(
      scenario: "waiting", seed: 7_200_002_392, story: "the oracle forgot at a rename what somebody wanted published"),
    FoundSeed(scenario: "templates", seed: 1331, story: "two captures of one name lived at once"),
    FoundSeed(
      scenario: "templates", seed: 243, story: "a renamed file was delivered under a name that nobody recorded"),
    FoundSeed(
      scenario: "disk", seed: 108,
      story: "nobody asked again what a file is like that was renamed while it could not be read"),
    FoundSeed(
      scenario: "disk", seed: 770_323, story: "what was opened and closed while it could not be read stayed interrupted"
    ),
    FoundSeed(
      scenario: "shortage", seed: 3_100_015_221,
      story: "the invariant took the record of a chunk that a power cut had taken for the chunk"),
    FoundSeed(
      scenario: "shortage", seed: 3_100_033_351,
      story: "the invariant wanted a session kept that was published before its file went on"),
    FoundSeed(
      scenario: "spool-disk", seed: 58, story: "what was left of a delivered file was published under its next name"),
    FoundSeed(
      scenario: "spool-disk", seed: 5409, story: "what was made good by one change stayed interrupted"),
    FoundSeed(
      scenario: "spool-disk", seed: 8469, story: "a change that came to nothing delivered a cancelled file"),
    FoundSeed(
      scenario: "spool-disk", seed: 7913, story: "a cancelled file that could not be looked at was delivered"),
    FoundSeed(
      scenario: "lying-draft", seed: 96, story: "a success without a word of the draft was taken for all bytes"),
    FoundSeed(scenario: "lying-draft", seed: 79, story: "a success without a word of the draft was a delivery"),
    FoundSeed(
      scenario: "draft", seed: 3_100_168_638,
      story: "a file was cut to what its upload held, and was committed for ever"),
    FoundSeed(
      scenario: "waiting", seed: 3_100_288_648, story: "what was wanted as it is was held again when it was renamed"),
    FoundSeed(
      scenario: "hasty", seed: 3_100_289_789,
      story: "a file that had lost its name for a moment counted as delivered under it"),
    FoundSeed(
      scenario: "templates", seed: 3_100_090_792, story: "a renamed file was replaced by the one that it had replaced"),
    FoundSeed(scenario: "black-hole", seed: 3_100_271_108, story: "files that hung together never connected anew"),
    FoundSeed(
      scenario: "black-hole", seed: 3_100_064_958, story: "the invariant did not know of the tries of empty files"),
    FoundSeed(scenario: "liar", seed: 3_200_041_748, story: "each change of a file began its pauses anew"),
    FoundSeed(
      scenario: "lying-draft", seed: 3_200_043_237,
      story: "the invariant took bytes for sent for which nobody was found"),
    FoundSeed(
      scenario: "lying-form", seed: 3_100_278_929, story: "a late answer of before ended a file that was tried again"),
    FoundSeed(
      scenario: "receiver-disk", seed: 6_100_014_529,
      story: "what a server had lost twice went out at once where that was known by asking"),
    FoundSeed(
      scenario: "receiver-disk", seed: 6_100_029_368,
      story: "the invariant did not know of a sync that had failed and was about to say so"),
    FoundSeed(
      scenario: "waiting", seed: 5_500_001_039,
      story: "the oracle did not know that an open file was wanted under its temporary name"),
    FoundSeed(
      scenario: "templates", seed: 5_700_011_677, story: "what a file had replaced before a power cut kept its name"),
    FoundSeed(scenario: "templates", seed: 6_100_002_268, story: "a file was shown under a name that it never had"),
    FoundSeed(
      scenario: "waiting", seed: 5_800_012_436, story: "a new session was called stuck for the time of the one before"),
    FoundSeed(
      scenario: "spool-disk", seed: 7_000_016_425,
      story: "what was delivered was held for a write that had failed and changed nothing, when it was renamed"),
    FoundSeed(
      scenario: "bare-copies", seed: 8_000_002_638,
      story: "a file that one change had cut short failed for parts that it no longer had"),
    FoundSeed(
      scenario: "tus", seed: 9_400_005_632,
      story: "a file that was cut to what its upload held was published, and the server waited for the rest"),
    FoundSeed(
      scenario: "lost-states", seed: 7_800_030_630,
      story: "parts of a delivered file were given up under its next name, and nothing said where they were"),
    FoundSeed(
      scenario: "spool-disk", seed: 7_800_026_785,
      story: "what was put back counted as delivered, where a revision without a durable record was published"),
    FoundSeed(
      scenario: "recorders", seed: 8_810_015_675,
      story: "zeros that were acknowledged went out, because the file had been changed and read meanwhile"),
    FoundSeed(
      scenario: "slow", seed: 9_516_000_049,
      story: "the invariant took a byte that had gone out a millisecond before for one that the client knew of"),
    FoundSeed(
      scenario: "slow", seed: 8_810_016_089,
      story: "a last chunk of one byte was sent over another connection again and again"),
    FoundSeed(
      scenario: "spool-disk", seed: 8_800_002_840,
      story: "the invariant took an empty body that had arrived for one that moves"),
    FoundSeed(
      scenario: "spool-disk", seed: 7_800_023_225,
      story: "the simulation took what a disk had refused and lost for the file, which the receiver had as a whole"),
    FoundSeed(
      scenario: "comebacks", seed: 7_800_006_549,
      story: "the invariant took a chunk that each of six contents had, under two names, for tries of one"),
    FoundSeed(
      scenario: "lying-form", seed: 8_500_026_319,
      story: "pauses that were drawn from a range that grew stayed short twenty times, and each try sent the file"),
    FoundSeed(
      scenario: "webdav", seed: 405_085_765,
      story: "what a gateway said to the request that marks an upload ended marks for the whole run"),
    FoundSeed(
      scenario: "webdav", seed: 905_374_166,
      story: "a file that had its name was taken for unpublished where the next question did not arrive"),
    FoundSeed(
      scenario: "lying-webdav", seed: 44_575_808,
      story: "a file that was renamed while the answer to its move was lost had its former name for good"),
    FoundSeed(
      scenario: "crowd", seed: 8_830_001_172,
      story: "the invariant did not know of a time to come that a file had before its writer gave it the present one"),
    FoundSeed(
      scenario: "templates", seed: 8_830_004_505,
      story: "of a capture that was published from two paths a new record of names learned the first alone"),
    FoundSeed(
      scenario: "templates", seed: 20_505,
      story: "an empty capture counted as delivered under a name that it had got and nobody had published"),
    FoundSeed(
      scenario: "bare-copies", seed: 20_123,
      story: "a writer who went on made a recording whole of which a power cut before the copy had taken bytes"),
    FoundSeed(
      scenario: "bare-copies", seed: 8_930_008_926,
      story: "a delivered capture whose disk had not been known to have it failed for parts that it had"),
    FoundSeed(
      scenario: "bare-copies", seed: 30_844,
      story: "the simulation forgot with the second copy that a file was taken for another one"),
    FoundSeed(
      scenario: "killed-writers", seed: 170,
      story: "the model took what a killed writer had left, and the disk had, for what a power cut leaves"),
    FoundSeed(
      scenario: "killed-writers", seed: 642,
      story: "what a killed writer had left was written over, and a power cut left a mixture that the next made whole"),
    FoundSeed(
      scenario: "shortage", seed: 9039,
      story: "the simulation took what was read of a chunk last for what was sent, and the last was a hole"),
    FoundSeed(
      scenario: "addresses", seed: 24_000_002_831,
      story: "a refused end of a session counted no longer against its address"),
    FoundSeed(
      scenario: "everything", seed: 25_000_001_432,
      story: "a refused end of a session counted no longer against its address"),
    FoundSeed(
      scenario: "bare-copies", seed: 30_000_000_182,
      story: "the model did not know of what a comparison had proven, which went out under its next name"),
    FoundSeed(
      scenario: "receiver-disk", seed: 32_000_008_301,
      story: "the publication that was asked for last counted as the last one, and the next capture got a number"),
    FoundSeed(
      scenario: "hasty", seed: 32_000_023_494,
      story: "the model did not know of two files that replaced each other within one moment of a coarse clock"),
    FoundSeed(
      scenario: "templates", seed: 32_000_019_052,
      story: "a new record of names called a capture that was changed as its path, and not what it had been sent as"),
    FoundSeed(
      scenario: "templates", seed: 33_000_002_352,
      story: "a new record of names knew one of two paths from which a capture had been published under one name"),
    FoundSeed(
      scenario: "bare-copies", seed: 37_000_005_732,
      story: "what a server still held of before a change let the only copy of after it be given up"),
    FoundSeed(
      scenario: "s3", seed: 37_000_005_460, story: "stalls of a minute ago halved the streams of the next file"),
    FoundSeed(
      scenario: "templates", seed: 36_000_012_596,
      story: "the oracle did not know that a file had looked older under the name that it had before"),
    FoundSeed(
      scenario: "templates", seed: 42_000_005_206,
      story: "the oracle did not know that a capture may have the number of a name of which nothing was heard"),
    FoundSeed(
      scenario: "hangs", seed: 43_000_101_947,
      story: "the time in which one request hung counted as the line's, and the next one was waited for longer"),
    FoundSeed(
      scenario: "comebacks", seed: 44_000_004_310,
      story: "the invariant counted an empty file that writers had made six times as tries of one"),
    FoundSeed(
      scenario: "templates", seed: 45_000_042_858,
      story: "what had been published kept its name because of a request without an answer for its number"),
    FoundSeed(
      scenario: "templates", seed: 47_000_001_356,
      story: "the oracle did not know that a killed client has not heard what it had not recorded"),
    FoundSeed(
      scenario: "spool-power", seed: 48_100_014_189,
      story: "what a power cut had left took the place of what had been published by its user's word before it"),
    FoundSeed(
      scenario: "unread-records", seed: 47_000_021_289,
      story: "the oracle took what a disk had lost unseen for what was closed, and the server had that"),
    FoundSeed(
      scenario: "bare-copies", seed: 49_000_006_504,
      story: "in a copy of the spool what a power cut had left was taken for a later content, by its inode number"),
    FoundSeed(
      scenario: "comebacks", seed: 49_000_026_642,
      story: "what a power cut had brought back counted as delivered, by a session that had been replaced"),
    FoundSeed(
      scenario: "templates", seed: 49_000_005_540,
      story: "the oracle judged the choice of a number by what was heard after it"),
    FoundSeed(
      scenario: "templates", seed: 50_000_046_481,
      story: "a new record of names took a name for a capture's that it had been asked for under before"),
    FoundSeed(
      scenario: "templates", seed: 51_000_005_696,
      story: "a new record of names forgot the name that a capture was asked for under after it had been renamed"),
    FoundSeed(
      scenario: "templates", seed: 52_100_002_464,
      story: "so it did where another capture had had that name before"),
    FoundSeed(
      scenario: "templates", seed: 52_200_000_281,
      story: "so it did where it was delivered under another of its paths"),
    FoundSeed(
      scenario: "templates", seed: 52_300_000_447,
      story: "a new record of names gave a removed capture's name to a path that was not its last one"),
    FoundSeed(
      scenario: "spool-disk", seed: 52_000_054_325,
      story: "a request to publish took away the mark of what the disk was found to have lost since"),
    FoundSeed(
      scenario: "killed-writers", seed: 50_000_052_053,
      story: "a mark that the disk did not have hid the one that it had, which proved what was written over"),
    FoundSeed(
      scenario: "spool-power", seed: 50_000_052_688, story: "the oracle took an empty capture for one of before"),
    FoundSeed(
      scenario: "hasty", seed: 50_000_046_627,
      story: "the oracle allowed no number for what arrived after it had been given up"),
    FoundSeed(
      scenario: "lying-words", seed: 49_000_027_399,
      story: "the oracle took one session that was given to two files for one"),
    FoundSeed(
      scenario: "bare-copies", seed: 52_700_046_956,
      story: "what a power cut had left of a delivery counted as what lacks parts that were given up"),
    FoundSeed(
      scenario: "ignored-names", seed: 52_800_000_028,
      story: "what had got a temporary name after its delivery was delivered again under that"),
    FoundSeed(
      scenario: "templates", seed: 53_000_013_007,
      story: "an answer that the catalog did not have yet counted as none, which cost a number"),
    FoundSeed(
      scenario: "lying-words", seed: 53_100_081_853,
      story: "a commit without an answer hid why its file had failed"),
    FoundSeed(
      scenario: "lost-states", seed: 53_200_158_082,
      story: "the oracle forgot with a mark that a power cut took why a file was not whole, and the catalog did not"),
  ]

  @Test(arguments: found)
  func seedThatFoundAMistake_holds(_ found: FoundSeed) throws {
    let scenario: Scenario = try #require(Scenario.named(found.scenario))
    try expectHolds(Simulation(seed: found.seed, scenario: scenario))
  }

  @Test(arguments: Scenario.all + [.fixed], 1..<4 as Range<UInt64>)
  func everyScenario_holds(_ scenario: Scenario, _ seed: UInt64) throws {
    try expectHolds(Simulation(seed: seed, scenario: scenario))
  }

  /// Those that the first seeds find; scripts/simulate --prove shows it of all.
  @Test(arguments: [
    PlantedBug.acknowledgeBeforeWrite, .completeBeforeDurable, .forgetFileAtRestart, .resendAcknowledged, .wrongChain,
    .retryWithoutDelay, .leakBuffer, .publishUnverified, .doubleCommit, .skipDataSync, .publishUnderOldName,
    .releaseBufferEarly, .loseCompletion, .storeEncoded, .stayAtFirstAddress, .ignoreMemory, .dawdle, .keepExpired,
    .forgetUsage, .evictUndelivered, .doubleChunk, .overbook, .loseRecord, .endlessSessionName, .pretendAdvance,
    .retrySetbacks, .forgetNames, .forgetIntents, .answerEarly, .answerLate, .evictForOne,
    .announceLastKnown, .hideScanFailure, .verifyInMemory, .replaceOthers, .resendPublished,
    .chooseAgain,
  ])
  func plantedBug_isFound_byTheInvariantThatItNames(_ bug: PlantedBug) throws {
    let (_, violation) = try #require(try bug.seedThatFinds(among: 1..<21))
    #expect(violation.invariant == bug.invariant)
  }

  @Test(arguments: Invariant.allCases)
  func invariant_hasABugThatItHasToFind(_ invariant: Invariant) {
    #expect(PlantedBug.allCases.contains { $0.invariant == invariant })
  }

  @Test(arguments: [PlannedFault.failOnce(at: 20), .failFrom(40), .crash(at: 60), .crash(at: 100)])
  func fixedScenario_holds_whenOneEffectIsAtFault(_ plan: PlannedFault) throws {
    try expectHolds(Simulation(seed: 1, scenario: .fixed, plan: plan))
  }

  private func expectHolds(_ simulation: Simulation) throws {
    let violation = try simulation.run().violation
    #expect(violation == nil, "\(violation.map { "\($0)" } ?? ""); again: \(simulation.replayCommand)")
  }
}
