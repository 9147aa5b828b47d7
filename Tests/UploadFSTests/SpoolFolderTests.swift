import CLinux
import FilesystemFixtures
import Glibc
import Promises
import Testing

@testable import UploadFS

/// Who gets at the spool, and where a mount may be made.
struct SpoolFolderTests {
  private func privacy(mode: mode_t, owner: uid_t = 7, names: [String] = []) -> SpoolPrivacy {
    SpoolPrivacy(mode: S_IFDIR | mode, owner: owner, daemon: 7, names: names)
  }

  @Test(arguments: [0o710, 0o701, 0o755, 0o1777, 0o750, 0o704] as [mode_t])
  func aSpoolThatOthersCanEnterIsClosedOnlyWhereNoUserNeedsItOpen(mode: mode_t) {
    #expect(privacy(mode: mode) == .canBeTightened)
    #expect(privacy(mode: mode, names: ["captures", ".state", "lost+found"]) == .canBeTightened)
    #expect(privacy(mode: mode, names: ["captures", "photos", "letters"]) == .holdsMore(name: "letters"))
    #expect(privacy(mode: 0o700, names: ["photos"]) == .isPrivate)
    #expect(privacy(mode: mode, owner: 0) == .belongsToAnother(user: 0))
  }

  @Test func anotherUsersSpoolIsRefusedWhateverItsMode() {
    let refusal = privacy(mode: 0o700, owner: 8).refusal(of: "/spool")
    #expect(refusal?.reason.contains("belongs to user 8") == true && refusal?.advice.contains("chown") == true)
    let own = "/home/me/spool"
    #expect(privacy(mode: 0o755, names: ["x"]).refusal(of: own)?.advice.contains("chmod 700 \(own)") == true)
    // Regression: it was advised for the root and for /tmp as well.
    for shared in ["/", "/tmp", "/home", "/var/lib", "/usr/share/x"] {
      #expect(privacy(mode: 0o755, names: ["x"]).refusal(of: shared)?.advice.contains("chmod") == false, "\(shared)")
    }
    #expect(privacy(mode: 0o755).refusal(of: "/spool") == nil && privacy(mode: 0o700).refusal(of: "/spool") == nil)
  }

  /// Regression: a spool that had been there before stayed open to others.
  @Test(.promises("SE1a")) func anOpenSpoolIsClosedAtTheStart() throws {
    let folder = try TemporaryFolder()
    let spool = folder.path + "/spool"
    #expect(mkdir(spool, 0o700) == 0 && chmod(spool, 0o777) == 0)
    #expect(mkdir(spool + "/captures", 0o700) == 0 && chmod(spool + "/captures", 0o777) == 0)
    _ = try Mounted(folder: folder)
    var status = stat()
    #expect(stat(spool, &status) == 0 && status.st_mode & 0o7777 == 0o700)
  }

  private func refusal(_ body: () throws(MountError) -> Void) -> MountError? {
    do throws(MountError) {
      try body()
      return nil
    } catch {
      return error
    }
  }

  private func open(_ folder: TemporaryFolder) throws(MountError) {
    _ = try Filesystem(
      configuration: FilesystemConfiguration(
        mountPoint: folder.path + "/mount", spoolDirectory: folder.path + "/spool"),
      sink: RecordingSink(), virtualTree: SettableTree())
  }

  /// Regression (random lives): a backup of a new spool failed within its first second, because one of its files came with the end of
  /// the first search. Captures of an earlier version are met first: until then nothing says that their spool did not move.
  @Test(arguments: [true, false]) func aNewSpoolSaysAtOnceThatItIsOne(isNew: Bool) throws {
    let folder = try TemporaryFolder()
    let spool = folder.path + "/spool"
    if !isNew { #expect(mkdir(spool, 0o700) == 0 && mkdir(spool + "/captures", 0o700) == 0) }
    try open(folder)
    #expect((access(spool + "/.spool", F_OK) == 0) == isNew)
  }

  /// Regression.
  @Test(.promises("SE1b")) func anOpenSpoolWithOtherThingsInItIsRefused() throws {
    let folder = try TemporaryFolder()
    let spool = folder.path + "/spool"
    #expect(mkdir(spool, 0o700) == 0 && mkdir(spool + "/photos", 0o700) == 0 && chmod(spool, 0o755) == 0)
    let error = refusal { () throws(MountError) in try open(folder) }
    #expect(error?.kind == .spoolUnusable && error?.message.contains("chmod 700 \(spool)") == true)
    #expect(access(spool + "/captures", F_OK) != 0, "nothing was made")
    #expect(chmod(spool, 0o700) == 0)
    #expect(refusal { () throws(MountError) in try open(folder) } == nil)
  }

  @Test("Regression: a spool in the captures of another one had its key uploaded", .promises("SE3"))
  func whatLiesInTheCapturesOfASpool_isNoPlaceForAnother() throws {
    let folder = try TemporaryFolder()
    _ = try Mounted(folder: folder)
    let captures = folder.path + "/spool/captures"
    #expect(mkdir(captures + "/day", 0o700) == 0)
    func refusal(spool: String, mountPoint: String) -> MountError? {
      self.refusal { () throws(MountError) in
        _ = try Filesystem(
          configuration: FilesystemConfiguration(mountPoint: mountPoint, spoolDirectory: spool), sink: RecordingSink(),
          virtualTree: SettableTree())
      }
    }
    for inner in ["/inner", "/day/inner", "/day/more/inner"] {
      let spool = refusal(spool: captures + inner, mountPoint: folder.path + "/mount")
      #expect(spool?.kind == .spoolInsideMount && spool?.message.contains(folder.path + "/spool,") == true)
      #expect(access(captures + inner, F_OK) != 0, "nothing was made")
    }
    let mountPoint = refusal(spool: folder.path + "/other", mountPoint: captures + "/day")
    #expect(mountPoint?.kind == .spoolInsideMount)
    #expect(SpoolFolder.spool(aroundPlaceOf: folder.path + "/captures/x") == nil)
    #expect(SpoolFolder.spool(aroundPlaceOf: "/") == nil)
  }

  /// Regression: as a text, a real path that is no UTF-8 names another place, and there was no spool around that.
  @Test func theCapturesOfASpoolWhosePathIsNoUTF8_areNoPlaceForAnother() throws {
    let folder = try TemporaryFolder()
    let outer: [CChar] = Array((folder.path + "/caf").utf8CString.dropLast()) + [CChar(bitPattern: 0xe9)]
    for name in ["", "/captures", "/.state"] {
      let path: [CChar] = outer + Array(name.utf8CString)
      #expect(mkdir(path, 0o700) == 0)
    }
    let captures: [CChar] = outer + Array("/captures".utf8CString)
    #expect(symlink(captures, folder.path + "/link") == 0)
    let spool = folder.path + "/link/inner"
    let error = refusal { () throws(MountError) in
      _ = try Filesystem(
        configuration: FilesystemConfiguration(mountPoint: folder.path + "/mount", spoolDirectory: spool),
        sink: RecordingSink(), virtualTree: SettableTree())
    }
    #expect(error?.kind == .spoolInsideMount)
    #expect(access(spool, F_OK) != 0, "nothing was made")
  }

  /// Regression: where it leads others may get at it, whatever the spool's mode.
  @Test func capturesThatAreALinkAreRefused() throws {
    let folder = try TemporaryFolder()
    let spool = folder.path + "/spool"
    #expect(mkdir(spool, 0o700) == 0 && mkdir(folder.path + "/elsewhere", 0o777) == 0)
    #expect(symlink(folder.path + "/elsewhere", spool + "/captures") == 0)
    #expect(refusal { () throws(MountError) in try open(folder) }?.kind == .spoolUnusable)
  }

  // MARK: A symbolic link in the place of a folder

  /// Regression: the daemon followed a symbolic link that had been put into the spool in the place of a folder, and made,
  /// changed and removed with its own rights what lay behind it.
  @Test(.promises("SE2")) func aLinkInAFoldersPlaceLeadsNowhere() throws {
    let mounted = try Mounted()
    let outside = mounted.folder.path + "/outside"
    #expect(mkdir(outside, 0o700) == 0 && mkdir(outside + "/below", 0o700) == 0)
    close(uploadfs_openat(AT_FDCWD, outside + "/precious", O_WRONLY | O_CREAT, 0o600))
    try mounted.makeDirectory("d")
    try mounted.makeDirectory("d/below")
    try mounted.make("d/precious")
    let folder = try mounted.node("d")
    let below = try mounted.node("d/below")
    let file = try mounted.node("d/precious")
    #expect(rename(mounted.captures + "/d", mounted.captures + "/d2") == 0)
    #expect(symlink(outside, mounted.captures + "/d") == 0)
    func entry(_ name: String) -> DirectoryEntry { DirectoryEntry(directory: folder, name: EntryName(name)) }
    let filesystem = mounted.filesystem
    let caller = mounted.caller
    var changes = AttributeChanges()
    changes.mode = 0o777
    var size = AttributeChanges()
    size.size = 0
    let calls: [(String, () throws -> Void)] = [
      ("create", { _ = try filesystem.create(entry("owned"), mode: 0o600, flags: O_WRONLY, caller: caller) }),
      ("mkdir", { _ = try filesystem.makeDirectory(entry("owned"), mode: 0o700, caller: caller) }),
      ("symlink", { _ = try filesystem.makeSymbolicLink(entry("owned"), target: "x", caller: caller) }),
      ("mknod", { _ = try filesystem.makeNode(entry("owned"), mode: S_IFIFO | 0o600, caller: caller) }),
      ("link", { _ = try filesystem.makeLink(to: file, at: entry("owned")) }),
      ("unlink", { try filesystem.unlink(entry("precious")) }),
      ("rmdir", { try filesystem.removeDirectory(entry("below")) }),
      ("rename", { try filesystem.rename(entry("precious"), to: entry("owned"), flags: 0) }),
      ("lookup", { _ = try filesystem.lookup(entry("precious")) }),
      ("open", { _ = try filesystem.open(file, flags: O_RDWR) }),
      ("chmod", { _ = try filesystem.setAttributes(of: file, changes, handle: nil) }),
      ("truncate", { _ = try filesystem.setAttributes(of: file, size, handle: nil) }),
      ("opendir", { _ = try filesystem.openDirectory(below) }),
      ("tmpfile", { _ = try filesystem.createTmpfile(in: below, mode: 0o600, flags: O_WRONLY, caller: caller) }),
    ]
    for (name, call) in calls {
      #expect(failure(call) == ESTALE, "\(name)")
    }
    #expect(access(outside + "/owned", F_OK) != 0)
    #expect(access(outside + "/precious", F_OK) == 0 && access(outside + "/below", F_OK) == 0)
    // What is left of the folder is a link, as every user can make one.
    #expect(try mounted.filesystem.lookup(mounted.entry("d"))?.status.kind == .other)
    #expect(mounted.sink.problems == [])
  }

  /// With and without openat2(2), which some containers do not let through.
  @Test(arguments: [uploadfs_open_folder_beneath, uploadfs_enter_folders_beneath])
  func aFolderIsReachedThroughFoldersAlone(open: @Sendable (Int32, UnsafePointer<CChar>?) -> Int32) throws {
    let folder = try TemporaryFolder()
    let path = folder.path
    #expect(mkdir(path + "/a", 0o700) == 0 && mkdir(path + "/a/b", 0o700) == 0)
    #expect(symlink("b", path + "/a/link") == 0 && symlink("a", path + "/first") == 0)
    close(uploadfs_openat(AT_FDCWD, path + "/a/file", O_WRONLY | O_CREAT, 0o600))
    let root = FileDescriptor(
      owning: uploadfs_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0), isReadable: true, isWritable: false)
    func outcome(_ path: String) -> Int32 {
      let number = open(root.number, path)
      guard number < 0 else {
        close(number)
        return 0
      }
      return errno
    }
    #expect(outcome("a") == 0 && outcome("a/b") == 0)
    #expect(outcome("a/link") == ELOOP && outcome("first/b") == ELOOP && outcome("first") == ELOOP)
    #expect(outcome("a/file") == ENOTDIR && outcome("a/none") == ENOENT)
    #expect(outcome("../\(path)") == EXDEV || outcome("..") == EXDEV)
  }

  /// Regression: on kernels that send it, the mode of what the link leads to was changed.
  @Test(.promises("S18a")) func aSymbolicLinkHasNoModeToChange() throws {
    let mounted = try Mounted()
    try mounted.make("file")
    _ = try mounted.filesystem.makeSymbolicLink(mounted.entry("link"), target: "file", caller: mounted.caller)
    var changes = AttributeChanges()
    changes.mode = 0o777
    #expect(
      failure { _ = try mounted.filesystem.setAttributes(of: mounted.node("link"), changes, handle: nil) } == EOPNOTSUPP
    )
    #expect(try mounted.filesystem.attributes(of: mounted.node("file"), handle: nil).st_mode & 0o777 == 0o600)
    _ = try mounted.filesystem.makeNode(mounted.entry("pipe"), mode: S_IFIFO | 0o600, caller: mounted.caller)
    let pipe = try mounted.filesystem.setAttributes(of: mounted.node("pipe"), changes, handle: nil)
    #expect(pipe.st_mode & 0o777 == 0o777)
  }

  // MARK: Other mounts

  private static let mountinfo = """
    22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
    40 22 0:53 / /capture rw,nosuid - fuse.uploadfs uploadfs rw,user_id=0
    41 22 0:54 / /photos rw,nosuid shared:7 master:2 - fuse.sshfs host: rw
    42 22 0:53 /day /elsewhere\\040here rw shared:9 - fuse.uploadfs uploadfs rw
    broken
    """

  @Test("Regression: a mount that was moved was looked for where it had been mounted")
  func movedMount_isFollowed() throws {
    let place = try #require(MountIdentity(at: "/elsewhere here", in: Self.mountinfo))
    #expect(place.path(in: Self.mountinfo) == "/elsewhere here")
    let moved = Self.mountinfo.replacing("/elsewhere\\040here", with: "/new\\134\\0409")
    #expect(place.path(in: moved) == "/new\\ 9" && MountIdentity(at: "/elsewhere here", in: moved) == nil)
    // What has its number by now, or is mounted where it was, is not it.
    #expect(place.path(in: "42 22 0:55 / /elsewhere\\040here rw - tmpfs t rw") == nil)
    #expect(place.path(in: "43 22 0:53 / /elsewhere\\040here rw - fuse.uploadfs u rw") == nil)
    // Of several at one place it is the uppermost, and a cut line is none.
    let two = "1 0 0:1 / /a rw - tmpfs t rw\n2 1 0:2 / /a rw - fuse.uploadfs u rw\n3 1 0:3 /"
    #expect(MountIdentity(at: "/a", in: two)?.path(in: "2 1 0:2 / /b rw - fuse.uploadfs u rw") == "/b")
  }

  @Test func whatIsMountedUppermostAtAPlace_hasItsKind() {
    let mountinfo = """
      21 1 0:19 / / rw,relatime shared:1 - ext4 /dev/vda rw
      30 21 0:40 / /later rw,relatime shared:9 - autofs systemd-1 rw,fd=41
      """
    #expect(MountIdentity.kind(at: "/later", in: mountinfo) == "autofs")
    let mounted = mountinfo + "\n31 30 0:41 / /later rw shared:9 - fuse.uploadfs uploadfs rw"
    #expect(MountIdentity.kind(at: "/later", in: mounted) == "fuse.uploadfs")
    #expect(
      MountIdentity.kind(at: "/late", in: mountinfo) == nil
        && MountIdentity.kind(at: "/", in: "21 1 0:19 / / rw -") == nil)
  }

  @Test func uploadMountsAreKnownByTheirFilesystem() {
    let mounts = UploadMounts(mountinfo: Self.mountinfo)
    // Regression: a folder with the copy of a summary counted as a mount.
    #expect(UploadMounts(mountinfo: "1 1 0:53 / /a rw - fuse.uploadfs u rw").isMounted(device: 53, parentDevice: 1))
    #expect(!UploadMounts(mountinfo: "1 1 0:53 / /a rw - fuse.uploadfs u rw").isMounted(device: 53, parentDevice: 53))
    #expect(!UploadMounts(mountinfo: "1 1 0:53 / /a rw - fuse.sshfs u rw").isMounted(device: 53, parentDevice: 1))
    #expect(!UploadMounts(mountinfo: "").isMounted(at: "/"))
    #expect(mounts == UploadMounts(mountinfo: Self.mountinfo + "\n") && mounts != UploadMounts(mountinfo: ""))
    #expect(mounts.holding("/", "/proc/self", "/there is no such path") == nil)
    #expect(UploadMounts.device(major: 0, minor: 53) == 53)
    #expect(UploadMounts.device(major: 254, minor: 0x12345) == 0xfe << 8 | 0x45 | 0x123 << 20)
    var status = stat()
    #expect(stat("/", &status) == 0)
    let (major, minor) = (UInt64(status.st_dev) >> 8 & 0xfff, UInt64(status.st_dev) & 0xff)
    guard UploadMounts.device(major: major, minor: minor) == UInt64(status.st_dev) else { return }
    let here = UploadMounts(mountinfo: "1 1 \(major):\(minor) / /somewhere rw - fuse.uploadfs uploadfs rw")
    #expect(here.holding("/none", "/") == "/somewhere")
  }
}
