import CurlTransport
import FileModel
import Glibc
import MountConfiguration
import Testing
import TransferModel
import UploadFS

@testable import Doctor

@Suite struct MachineExaminationTests {
  private func facts(_ change: (inout MachineState) -> Void = { _ in }) -> MachineState {
    var facts = MachineState(
      spool: MachineState.Spool(
        path: "/spool", existing: "/spool", refusal: nil, hasAttributes: true, freeBytes: 50_000_000_000,
        freeFiles: 1_000_000, quotas: .none, kind: .disk, usedBy: nil),
      fuse: FuseSupport(
        device: .usable, libraryVersion: "3.17.2", libraryHasPassthrough: true, hasMountHelper: true,
        allowsOthers: false), mayMount: true, isRoot: true, kernel: "6.12.1+deb13-amd64", openFilesMax: 1 << 20,
      availableBytes: 4_000_000_000, congestion: MachineState.Congestion(systemName: "cubic"))
    change(&facts)
    return facts
  }

  private func finding(
    _ check: Finding.Check, allowOther: Bool = false, passthrough: Passthrough = .off,
    _ change: (inout MachineState) -> Void = { _ in }
  ) throws -> Finding {
    let findings = MachineExamination(
      facts(change), reserveBytes: 205_000_000, allowOther: allowOther, passthrough: passthrough
    ).findings
    return try #require(findings.first { $0.check == check })
  }

  @Test func aGoodMachineHasNothingToSay() {
    let findings = MachineExamination(
      facts(), reserveBytes: 205_000_000, allowOther: false, passthrough: .off
    ).findings
    #expect(findings.allSatisfy { $0.level == .ok }, "\(findings.map(\.words))")
  }

  @Test func aSpoolThatCannotBeWrittenIsAProblem() throws {
    let finding = try finding(.spool) { $0.spool?.refusal = "/spool: permission denied" }
    #expect(finding.level == .problem && finding.status == .spoolUnusable)
  }

  @Test func aSpoolThatLacksAFolder_orIsOne_isAProblem() throws {
    for folder in ["captures", ".state"] {
      let finding = try finding(.spool) { $0.spool?.missingFolder = folder }
      #expect(finding.level == .problem && finding.message.contains("lacks its folder \(folder)"))
    }
    #expect(try finding(.spool) { $0.spool?.owner = "/disk/spool" }.advice == "Give that one: --spool /disk/spool.")
  }

  @Test func theFoldersOfASpoolAreLookedAt() throws {
    var template = Array("/tmp/uploadfs-tests-XXXXXX".utf8CString)
    let made = try #require(mkdtemp(&template))
    let spool = String(cString: made)
    defer {
      for path in ["/captures/take", "/captures", "/.state", ""] where unlink(spool + path) != 0 { rmdir(spool + path) }
    }
    func missing() -> String? { MachineState.current(spool: spool).spool?.missingFolder }
    #expect(missing() == nil)
    mkdir(spool + "/captures", 0o700)
    #expect(missing() == nil, "it may be the first mount's")
    close(open(spool + "/captures/take", O_CREAT | O_WRONLY, 0o600))
    #expect(missing() == ".state")
    mkdir(spool + "/.state", 0o700)
    #expect(missing() == nil)
    #expect(MachineState.current(spool: spool + "/captures").spool?.owner == spool)
    #expect(MachineState.current(spool: spool).spool?.owner == nil)
    unlink(spool + "/captures/take")
    rmdir(spool + "/captures")
    #expect(missing() == "captures")
  }

  /// Regression: a mount refused it, and doctor did not.
  @Test func aSpoolInTheCapturesOfAnother_isAProblem() throws {
    let finding = try finding(.spool) { $0.spool?.outer = "/disk/spool" }
    #expect(finding.level == .problem && finding.status == .spoolUnusable && finding.message.contains("/disk/spool"))
    var template = Array("/tmp/uploadfs-tests-XXXXXX".utf8CString)
    let spool = String(cString: try #require(mkdtemp(&template)))
    defer { for path in ["/captures", "/.state", ""] { rmdir(spool + path) } }
    for folder in ["/captures", "/.state"] { mkdir(spool + folder, 0o700) }
    #expect(MachineState.current(spool: spool + "/captures/inner/spool").spool?.outer == spool)
    #expect(MachineState.current(spool: spool).spool?.outer == nil)
  }

  /// Regression: the disk was said to be full.
  @Test func aSpoolAmongTheKernelsFiles_isAProblem() throws {
    #expect(MachineState.current(spool: "/proc/spool").spool?.kind == .kernel)
    let findings = MachineExamination(
      facts { $0.spool?.kind = .kernel }, reserveBytes: 1, allowOther: false, passthrough: .off
    ).findings.filter { $0.level != .ok }
    #expect(findings.map(\.check) == [.spool] && findings[0].status == .spoolUnusable)
  }

  @Test func spoolsThatLoseCapturesAreWarnedOf() throws {
    #expect(try finding(.spool) { $0.spool?.kind = .memory }.message.contains("memory"))
    #expect(try finding(.spool) { $0.spool?.kind = .network }.level == .warning)
    #expect(try finding(.spool) { $0.spool?.hasAttributes = false }.message.contains("extended attributes"))
    #expect(try finding(.spool) { $0.spool?.usedBy = 17 }.message.contains("process 17"))
    #expect(try finding(.spool) { $0.spool?.existing = "/" }.message.hasSuffix("will be made in /."))
    #expect(try finding(.spool) { $0.spool?.existing = "." }.message.hasSuffix("will be made in the current folder."))
    #expect(try finding(.spool) { $0.spool = nil }.level == .skipped)
  }

  /// Regression.
  @Test func aSpoolThatAMountRefusesOrClosesIsNamed() throws {
    let open = try finding(.spool) { $0.spool?.privacy = .canBeTightened }
    #expect(open.level == .warning && open.advice?.contains("chmod 700 /spool") == true)
    let shared = try finding(.spool) { $0.spool?.privacy = .holdsMore(name: "photos") }
    #expect(shared.status == .spoolUnusable && shared.message.contains("photos"))
    #expect(try finding(.spool) { $0.spool?.privacy = .belongsToAnother(user: 8) }.level == .problem)
    #expect(try finding(.spool) { $0.spool?.privacy = .isPrivate }.level == .ok)
    let nested = try finding(.spool) { $0.spool?.uploadMount = "/capture" }
    #expect(nested.status == .spoolUnusable && nested.message.contains("/capture"))
  }

  @Test func roomIsWhatTheReserveLeaves() throws {
    #expect(try finding(.space) { $0.spool?.freeBytes = 205_000_000 }.level == .problem)
    #expect(try finding(.space) { $0.spool?.freeBytes = 305_000_000 }.message.contains("100.0 MB"))
    #expect(try finding(.space) { $0.spool?.freeFiles = 3 }.level == .warning)
  }

  @Test func whatFuseNeedsDependsOnWhoMounts() throws {
    #expect(try finding(.fuse) { $0.fuse.device = .missing }.status == .fuseUnavailable)
    #expect(try finding(.fuse) { $0.fuse.device = .refused(errno: 1) }.advice?.contains("container") == true)
    #expect(try finding(.fuse) { $0.mayMount = false }.message == "root may not mount here.")
    let ordinary = { (facts: inout MachineState) in
      facts.isRoot = false
      facts.mayMount = false
    }
    #expect(try finding(.fuse, ordinary).level == .ok)
    #expect(try finding(.fuse, allowOther: true, ordinary).advice?.contains("user_allow_other") == true)
    let helpless = try finding(.fuse) {
      ordinary(&$0)
      $0.fuse.hasMountHelper = false
    }
    #expect(helpless.message.contains("fusermount3"))
  }

  @Test func passthroughNamesWhatIsMissingAndIsNoFault() throws {
    let old = { (facts: inout MachineState) in
      facts.fuse.libraryHasPassthrough = false
      facts.kernel = "6.1.0-18-amd64"
      facts.mayMount = false
    }
    let unset = try finding(.passthrough, old)
    #expect(unset.level == .ok && unset.message.contains("libfuse 3.17, Linux 6.9, root"))
    #expect(try finding(.passthrough) { $0.kernel = "10.0" }.message.hasPrefix("off. Possible"))
    let inVain = try finding(.passthrough, passthrough: .on, old)
    #expect(inVain.level == .warning && inVain.message.contains("libfuse 3.17, Linux 6.9, root"))
    #expect(try finding(.passthrough, passthrough: .read).message.hasPrefix("read: "))
  }

  @Test func passthroughBesideQuotasIsNotPossible() throws {
    for (quotas, words) in [(SpoolQuotas.enforced, "has quotas"), (.unknown, "does not say whether it has quotas")] {
      let inVain = try finding(.passthrough, passthrough: .on) { $0.spool?.quotas = quotas }
      #expect(inVain.level == .warning && inVain.message.hasSuffix("not possible: the spool's filesystem \(words)."))
      let unset = try finding(.passthrough) { $0.spool?.quotas = quotas }
      #expect(unset.level == .ok && unset.message.contains(words))
    }
    #expect(try finding(.passthrough, passthrough: .on) { $0.spool = nil }.level == .ok, "no spool was given")
  }

  @Test func fewFilesAndLittleMemoryAreWarnings() throws {
    #expect(try finding(.openFiles) { $0.openFilesMax = 1024 }.level == .warning)
    #expect(try finding(.memory) { $0.availableBytes = 100_000_000 }.level == .warning)
    #expect(try finding(.memory) { $0.availableBytes = nil }.level == .skipped)
  }

  @Test func whatKeepsConnectionsFromBBRIsSaid() throws {
    #expect(try finding(.congestion).message == "TCP uses cubic, and bbr where packets are lost.")
    #expect(try finding(.congestion) { $0.congestion.systemName = "bbr" }.message == "TCP uses bbr.")
    let forbidden = try finding(.congestion) { $0.congestion.refusalOfBBR = .forbidden }
    #expect(forbidden.level == .ok && forbidden.message.contains("net.ipv4.tcp_allowed_congestion_control"))
    #expect(try finding(.congestion) { $0.congestion.systemName = nil }.level == .skipped)
  }

  @Test func thisMachineCanBeLookedAt() {
    let facts = MachineState.current(spool: "/tmp/there is no such folder/spool")
    #expect(facts.spool?.quotas == SpoolQuotas(at: "/tmp"))
    #expect(facts.spool?.existing == "/tmp" && facts.openFilesMax > 0 && !facts.kernel.isEmpty)
  }
}
