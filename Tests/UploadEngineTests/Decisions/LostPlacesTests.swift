import FileModel
import Integrity
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// Recordings that were being written when the power went, of which the server has more than the spool's disk.
@Suite struct LostPlacesTests {
  /// What the next run finds of a recording of 5500 bytes, of which the chunks 1 to 3 were sent and 1000 to 3500 is lost.
  private struct Remains {
    var recording = Recording()
    var entry: CatalogEntry
    var record: ResumeRecord
    var file: ImaginaryFile
    private let digests: LookupTable<Int, Digest32>

    init(_ change: (inout Recording) -> Void = { _ in }) throws {
      recording.write(0..<5500)
      #expect(recording.send() == [1, 2, 3])
      let id = recording.file.id
      digests = try #require(recording.harness.schedule.resumeSnapshot(of: id, since: nil)?.record).digests
      change(&recording)
      entry = try #require(recording.harness.schedule.catalogEntry(of: id))
      record = try #require(recording.harness.schedule.resumeSnapshot(of: id, since: nil)?.record)
      file = recording.file
      // What is read from now on has other digests: as if all of it were zeros.
      file.snapshot.epoch = 0
      file.snapshot.writableOpens = 0
      file.snapshot.interruption = .notOnDisk
      file.snapshot.missing = MissingBytes([1000..<3500])
    }

    /// The next run, in which a user wants what is left as it is, and the server is asked.
    func published(entry: CatalogEntry? = nil, wanting: Bool = true, serverHolds: [Int] = [1, 2, 3]) -> ScheduleHarness
    {
      var harness = ScheduleHarness(catalog: [entry ?? self.entry], records: [record])
      harness.handle(file.found)
      harness.handle(.scanEnded)
      if wanting {
        #expect(harness.state(file.id) == .interrupted && harness.reads.isEmpty)
        harness.apply { $0.publish(file.id, at: $1) }
      }
      harness.answer(.held(digests: digests.filter { index, _ in serverHolds.contains(index) })) { $0.isQuery }
      return harness
    }
  }

  private func offsetsRead(_ harness: ScheduleHarness) -> [UInt64] { harness.reads.map(\.offset).sorted() }

  @Test(.promises("S40r")) func whatTheServerHasOfALostPlace_isNotReadFromTheDisk() throws {
    let remains = try Remains()
    var harness = remains.published()
    #expect(offsetsRead(harness) == [0, 4000, 5000])
    harness.answerReads()
    harness.succeed()
    #expect(harness.state(remains.file.id) == .complete && harness.schedule.isIdle)
    #expect(harness.schedule.takeSpoolOrders().isEmpty, "the copy here is no whole one")
    // Under another name it would be published as it is here.
    var renamed = remains.file.snapshot
    renamed.names = [RelativePath("b.mov")]
    harness.handle(.namesChanged(renamed))
    harness.advance(by: .seconds(10))
    #expect(harness.state(renamed.id) == .interrupted && harness.reads.isEmpty && harness.sent.isEmpty)
  }

  @Test(.promises("S40r")) func whatTheServerHasNot_isReadAsItIs_andCountsAsWholeThen() throws {
    let remains = try Remains()
    var harness = remains.published(serverHolds: [])
    #expect(offsetsRead(harness) == [0, 1000, 2000, 3000, 4000, 5000])
    harness.answerReads()
    harness.succeed()
    #expect(harness.state(remains.file.id) == .complete)
    #expect(harness.schedule.takeSpoolOrders() == [.accept(EvictionCandidate(remains.file.snapshot), .notOnDisk)])
  }

  @Test(.promises("S40r")) func aChunkThatWasRewrittenSinceItWasSent_countsAsTheDiskHasIt() throws {
    let remains = try Remains { recording in
      recording.write(1500..<1600)
      recording.wait()
    }
    #expect(remains.record.acknowledged.map(\.index) == [2, 3])
    #expect(offsetsRead(remains.published()) == [0, 1000, 4000, 5000])
  }

  @Test(.promises("S40r")) func aChunkThatIsRewrittenWhileItIsSent_countsAsTheDiskHasIt() throws {
    var recording = Recording()
    recording.write(0..<5500)
    recording.wait()
    recording.harness.answerReads()
    #expect(recording.harness.chunkRequests.map(\.index).contains(1))
    recording.write(1500..<1600)
    recording.wait()
    for index in [1, 2, 3] { recording.harness.answerChunk(index, .chunkStored) }
    let record = try #require(recording.harness.schedule.resumeSnapshot(of: recording.file.id, since: nil)?.record)
    #expect(record.acknowledged.map(\.index) == [2, 3])
  }

  @Test(.promises("S40r")) func ofWhatWasClosedBefore_noPartIsTakenFromAnEarlierContent() throws {
    let remains = try Remains { recording in
      recording.close()
      recording.write(0..<100)
      recording.harness.handle(.changed(recording.file.snapshot))
    }
    #expect(offsetsRead(remains.published()) == [0, 1000, 2000, 3000, 4000, 5000])
  }

  @Test(.promises("S40r")) func aRestartBeforeItsDelivery_changesNothing() throws {
    let remains = try Remains()
    let wanted = try #require(remains.published().schedule.catalogEntry(of: remains.file.id))
    var harness = remains.published(entry: wanted, wanting: false)
    #expect(offsetsRead(harness) == [0, 4000, 5000] && harness.schedule.takeSpoolOrders().isEmpty)
    harness.answerReads()
    harness.succeed()
    #expect(harness.state(remains.file.id) == .complete)
  }

  @Test(.promises("S40r")) func whatWasCutOffWithItsEnd_isNotMadeLongerAgain() throws {
    var remains = try Remains()
    remains.file.snapshot.sizeBytes = 2500
    #expect(offsetsRead(remains.published()) == [0, 2000])
  }

  @Test func whereNothingIsKnownToBeMissing_itCountsAsWholeAtOnce() throws {
    var remains = try Remains()
    remains.file.snapshot.missing = nil
    var harness = remains.published()
    #expect(harness.schedule.takeSpoolOrders() == [.accept(EvictionCandidate(remains.file.snapshot), .notOnDisk)])
  }
}

extension ResumeRecord {
  fileprivate var digests: LookupTable<Int, Digest32> {
    var digests: LookupTable<Int, Digest32> = [:]
    for chunk in acknowledged { digests[chunk.index] = chunk.digest.sha256 }
    return digests
  }
}
