import FileModel
import Glibc
import Testing

@testable import UploadFS

struct SharedHandlesTests {
  @Test func firstHandleAndLastOne_areTold() {
    var handles = SharedHandles()
    #expect(handles.opened() && !handles.opened() && handles.count == 2)
    #expect(!handles.released() && handles.released() && handles.count == 0)
  }

  @Test func descriptorAndBacking_areTakenOnce() {
    var handles = SharedHandles()
    let descriptor = FileDescriptor(owning: dup(0), isReadable: true, isWritable: false)
    handles.share(descriptor)
    handles.gave(BackingID(rawValue: 3))
    #expect(handles.takeDescriptor() === descriptor && handles.takeDescriptor() == nil)
    #expect(handles.takeBacking() == BackingID(rawValue: 3) && handles.takeBacking() == nil)
  }

  @Test func writersRest_whenEachHasClosedADescriptor() {
    var handles = SharedHandles()
    var activity = WriterActivity.found
    for _ in 0..<2 { _ = activity.openedForWriting() }
    handles.writerRested()
    #expect(!handles.areWritersResting(in: activity))
    handles.writerRested()
    #expect(handles.areWritersResting(in: activity))
    _ = activity.beginMutation()
    #expect(!handles.areWritersResting(in: activity), "a call is in progress")
    handles.passthroughWriterBegan()
    #expect(handles.areWritersResting(in: activity) && handles.hasPassthroughWriter, "it is the writer past the daemon")
    handles.writerResumed()
    #expect(!handles.areWritersResting(in: activity))
  }
}
