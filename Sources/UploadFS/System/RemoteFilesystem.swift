import CLinux

/// Filesystems of which another machine, or another program, says how long a file is and when it was changed.
enum RemoteFilesystem {
  /// NFS, CIFS, SMB2, SMB, Ceph, 9P and FUSE; numbers of linux/magic.h and of the filesystems themselves.
  private static let kinds: Set<UInt32> = [
    0x6969, 0xff53_4d42, 0xfe53_4d42, 0x517b, 0x00c3_6400, 0x0102_1997, 0x6573_5546,
  ]

  /// Whether a folder lies on one.
  static func holds(_ folder: FileDescriptor) -> Bool {
    kinds.contains(uploadfs_filesystem_kind("/proc/self/fd/\(folder.number)"))
  }
}
