import CurlTransport
public import FileModel
import MountConfiguration
import UploadEngine
import UploadFS

/// What the machine's state means for a mount. Pure.
public struct MachineExamination: Sendable {
  private let facts: MachineState
  private let reserveBytes: UInt64
  private let allowOther: Bool
  private let mode: Passthrough

  /// With less room than this a recorder soon has none.
  private static let spoolBytesMin: UInt64 = 2_000_000_000
  private static let freeFilesMin: UInt64 = 10_000
  /// Each open capture has one, and so has each connection.
  private static let openFilesMin: UInt64 = 4096

  /// Of a mount with these settings.
  public init(_ facts: MachineState, reserveBytes: UInt64, allowOther: Bool, passthrough: Passthrough) {
    self.facts = facts
    self.reserveBytes = reserveBytes
    self.allowOther = allowOther
    mode = passthrough
  }

  /// Everything that there is to say.
  public var findings: [Finding] {
    var findings: [Finding] = []
    if let spool = facts.spool {
      findings.append(self.spool(spool))
      if spool.kind != .kernel { findings.append(space(spool)) }
    } else {
      findings.append(
        Finding(
          .spool, .skipped, "not looked at: say with --spool where captures are to lie until they are delivered."))
    }
    return findings + [fuse, passthrough, openFiles, memory, congestion]
  }

  private func spool(_ spool: MachineState.Spool) -> Finding {
    if spool.kind == .kernel {
      return Finding(
        .spool, .problem, "the spool \(spool.path) lies among the kernel's own files, where nothing can be kept.",
        advice: "Choose a folder on a disk.", status: .spoolUnusable)
    }
    if let refusal = spool.refusal {
      return Finding(
        .spool, .problem, "the spool \(spool.path) cannot be written: \(refusal).",
        advice: "Choose a folder that this user can write, or have it made: install -d -o USER -m 700 \(spool.path).",
        status: .spoolUnusable)
    }
    if let mountPoint = spool.uploadMount {
      return Finding(
        .spool, .problem, "the spool \(spool.path) lies in another uploadfs mount, at \(mountPoint).",
        advice: "That mount would upload it: choose a folder on a disk.", status: .spoolUnusable)
    }
    if let owner = spool.owner {
      return Finding(
        .spool, .problem, "\(spool.path) is a folder of the spool \(owner).",
        advice: "Give that one: --spool \(owner).", status: .spoolUnusable)
    }
    if let outer = spool.outer {
      return Finding(
        .spool, .problem, "the spool \(spool.path) lies in the captures of the spool \(outer), which are uploaded.",
        advice: "Choose a folder beside it.", status: .spoolUnusable)
    }
    if let folder = spool.missingFolder {
      let lack =
        folder == "captures"
        ? "its captures were moved or removed, and what was not delivered counts as gone at the next start"
        : "what was delivered, cancelled or sent in part is not known, and everything is delivered anew"
      return Finding(
        .spool, .problem, "the spool \(spool.path) lacks its folder \(folder): \(lack).",
        advice: "Put it back before you mount: a mount makes a new one.", status: .spoolUnusable)
    }
    if let refusal = spool.privacy?.refusal(of: spool.path) {
      return Finding(
        .spool, .problem, "\(refusal.reason).", advice: "A mount refuses it: \(refusal.advice).",
        status: .spoolUnusable)
    }
    if let process = spool.usedBy {
      return Finding(
        .spool, .warning, "the spool \(spool.path) is in use by the mount of process \(process).",
        advice: "A second mount needs another spool.")
    }
    switch spool.kind {
    case .memory:
      return Finding(
        .spool, .warning, "the spool \(spool.path) lies in memory.",
        advice: "What is not delivered yet is lost when the machine stops: choose a folder on a disk.")
    case .network, .fuse:
      return Finding(
        .spool, .warning, "the spool \(spool.path) is no local disk.",
        advice: "Writers wait for it, and captures are only as safe as it is: choose a folder on a local disk.")
    case .disk, .kernel: break
    }
    if spool.privacy == .canBeTightened {
      return Finding(
        .spool, .warning, "the spool \(spool.path) can be entered by other users.",
        advice: "A mount closes it to them: chmod 700 \(spool.path).")
    }
    if spool.hasAttributes == false {
      return Finding(
        .spool, .warning, "the spool's filesystem has no user extended attributes.",
        advice: "What is being written stands in its .state/marks then, which costs a sync for each file, and "
          + "when-full=release is not possible. ext4, XFS and Btrfs have them.")
    }
    let folder = spool.existing == "." ? "the current folder" : spool.existing
    let what = spool.existing == spool.path ? "can be written" : "will be made in \(folder)"
    return Finding(.spool, .ok, "the spool \(spool.path) \(what).")
  }

  private func space(_ spool: MachineState.Spool) -> Finding {
    let room = spool.freeBytes > reserveBytes ? spool.freeBytes - reserveBytes : 0
    var details = [Finding.Fact(key: "room_bytes", value: .number(Int64(clamping: room)))]
    if let files = spool.freeFiles {
      details.append(Finding.Fact(key: "free_files", value: .number(Int64(clamping: files))))
    }
    let found = "the spool's disk has room for \(Readable.bytes(room)) of captures"
    guard room > 0 else {
      return Finding(
        .space, .problem,
        "the spool's disk has \(Readable.bytes(spool.freeBytes)) left, and \(Readable.bytes(reserveBytes)) "
          + "are kept free.",
        advice: "Writers would be told that the disk is full. Make room, or choose another --spool, or a smaller "
          + "--reserve.",
        facts: details, status: .spoolUnusable)
    }
    if let files = spool.freeFiles, files < Self.freeFilesMin {
      return Finding(
        .space, .warning, "the spool's filesystem has room for only \(files) more files.",
        advice: "Each capture is a file there until its space is needed: see --keep, or choose another --spool.",
        facts: details)
    }
    guard room >= Self.spoolBytesMin else {
      return Finding(
        .space, .warning, "\(found).", advice: "A long outage, or one large file, fills it. Choose a larger disk.",
        facts: details)
    }
    return Finding(.space, .ok, "\(found).", facts: details)
  }

  private var fuse: Finding {
    let problem = { (message: String, advice: String) in
      Finding(.fuse, .problem, message, advice: advice, status: .fuseUnavailable)
    }
    let fuse = facts.fuse
    let library = "libfuse \(fuse.libraryVersion)"
    switch fuse.device {
    case .missing:
      return problem(
        "/dev/fuse is missing.", "Load the module: modprobe fuse. A container needs --device /dev/fuse.")
    case .refused(let code):
      return problem(
        "/dev/fuse cannot be opened: \(systemText(code)).",
        facts.isRoot
          ? "This container may not use it: it needs --device /dev/fuse and CAP_SYS_ADMIN."
          : "Have root run: chmod 0666 /dev/fuse, or mount as root.")
    case .usable: break
    }
    if facts.isRoot, !facts.mayMount {
      return problem("root may not mount here.", "This container needs CAP_SYS_ADMIN.")
    }
    if !facts.isRoot, !fuse.hasMountHelper {
      return problem("fusermount3 is not installed.", "Install it: apt-get install fuse3, or mount as root.")
    }
    if !facts.isRoot, allowOther, !fuse.allowsOthers {
      return problem(
        "an ordinary user may not open a mount to others.", "Have root write user_allow_other to /etc/fuse.conf.")
    }
    return Finding(
      .fuse, .ok, "/dev/fuse can be used, with \(library).",
      facts: [Finding.Fact(key: "libfuse", value: .text(fuse.libraryVersion))])
  }

  /// The kernel reads and writes files of the spool by itself from 6.9 on, where it was built for it.
  private var passthrough: Finding {
    var missing: [String] = []
    if !facts.fuse.libraryHasPassthrough { missing.append("libfuse 3.17") }
    if !isKernelNewEnough { missing.append("Linux 6.9") }
    if !facts.mayMount { missing.append("root") }
    let lack = missing.isEmpty ? facts.spool?.quotas.refusal : "it needs \(missing.joined(separator: ", "))"
    if let lack {
      let impossible = "not possible: \(lack)"
      guard mode == .off else {
        return Finding(
          .passthrough, .warning, "set to \(mode.rawValue), and \(impossible).",
          advice: "Captures go through the daemon as without --passthrough; nothing else is missing.")
      }
      return Finding(.passthrough, .ok, "off, and \(impossible). Nothing is missing without it.")
    }
    switch mode {
    case .off:
      return Finding(
        .passthrough, .ok, "off. Possible: with --passthrough read the kernel reads captures without asking the daemon."
      )
    case .read:
      return Finding(.passthrough, .ok, "read: the kernel reads captures without asking the daemon.")
    case .on: return Finding(.passthrough, .ok, "on: the kernel reads and writes captures without asking the daemon.")
    }
  }

  private var isKernelNewEnough: Bool {
    let numbers = facts.kernel.split { !$0.isNumber }.prefix(2).map { Int($0) ?? 0 }
    guard let major = numbers.first, let minor = numbers.dropFirst().first else { return false }
    return major > 6 || (major == 6 && minor >= 9)
  }

  private var openFiles: Finding {
    guard facts.openFilesMax < Self.openFilesMin else {
      return Finding(.openFiles, .ok, "enough files can be open at the same time.")
    }
    return Finding(
      .openFiles, .warning, "only \(facts.openFilesMax) files can be open at the same time.",
      advice: "Have the limit raised: LimitNOFILE=65536 in a systemd unit, or nofile in /etc/security/limits.conf.")
  }

  private var memory: Finding {
    guard let available = facts.availableBytes else { return Finding(.memory, .skipped, "not known.") }
    let details = [Finding.Fact(key: "available_bytes", value: .number(Int64(clamping: available)))]
    let found = "\(Readable.bytes(available)) of memory are left"
    guard available < 200_000_000 else { return Finding(.memory, .ok, "\(found).", facts: details) }
    return Finding(
      .memory, .warning, "\(found).", advice: "With less than 200 MB fewer chunks are sent at the same time.",
      facts: details)
  }

  private var congestion: Finding {
    guard let system = facts.congestion.systemName else { return Finding(.congestion, .skipped, "not known.") }
    let bbr = CongestionControl.bbr.rawValue
    let details = [
      Finding.Fact(key: "system", value: .text(system)),
      Finding.Fact(key: "bbr", value: .flag(system == bbr || facts.congestion.refusalOfBBR == nil)),
    ]
    guard system != bbr else { return Finding(.congestion, .ok, "TCP uses \(bbr).", facts: details) }
    guard let refusal = facts.congestion.refusalOfBBR else {
      return Finding(.congestion, .ok, "TCP uses \(system), and \(bbr) where packets are lost.", facts: details)
    }
    return Finding(
      .congestion, .ok,
      "TCP uses \(system). Over a long line that loses packets \(bbr) is several times faster, and cannot be used: "
        + "\(refusal.words(for: bbr)).",
      facts: details)
  }
}
