import Glibc
import Logging
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct StateRoomTests {
  private let folder: ScratchFolder

  init() throws { folder = try ScratchFolder() }

  private func room() -> StateRoom { StateRoom(in: folder.path, logger: Logger(label: "test")) }

  private var bytesOnDisk: Int {
    var status = stat()
    return lstat(folder("room"), &status) == 0 ? Int(status.st_blocks) * 512 : 0
  }

  @Test func itTakesItsBytes_givesThemBackOnce_andTakesThemAgain() {
    let room = room()
    #expect(room.isWhole && bytesOnDisk >= UploadConstants.stateRoomBytes)
    #expect(room.giveBack() && bytesOnDisk == 0)
    #expect(!room.giveBack() && !room.isWhole)
    // There is space: nothing has to go for it.
    room.restore { _ in
      Issue.record("nothing has to go")
      return false
    }
    #expect(room.isWhole && bytesOnDisk >= UploadConstants.stateRoomBytes)
  }

  @Test func whatAnEarlierRunHasLeftIsTheRoom() {
    _ = room()
    let later = room()
    #expect(later.isWhole && bytesOnDisk < UploadConstants.stateRoomBytes + 1 << 20)
  }

  @Test func somethingElseInItsPlaceIsNoRoom_andStays() throws {
    mkdir(folder("room"), 0o700)
    let room = room()
    #expect(!room.isWhole && !room.giveBack())
    // Regression: all delivered copies went for it, on a disk that was empty.
    room.restore { _ in
      Issue.record("space is not what is missing")
      return true
    }
    #expect(!room.isWhole)
    #expect(folder.names() == ["room"])
  }
}
