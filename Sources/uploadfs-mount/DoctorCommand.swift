import ArgumentParser
import CurlTransport
import Destinations
import Doctor
import FileModel
import FoundationEssentials
import Glibc
import Logging
import MountConfiguration
import TransferModel

/// Checks a destination, and this machine, before anything is recorded.
struct DoctorCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor", abstract: "Check the destinations and this machine before anything is recorded.",
    discussion: """
      Takes the settings of “mount”; --spool can be left out. Looks at names, connections, certificates, clocks and \
      credentials, publishes a small file (uploadfs-doctor-HOST.txt) and takes it away again where the destination can, \
      measures how fast uploads are, and looks at what a mount needs of this machine. Ends with 0 when captures can be \
      delivered, else with the code of the first problem. Every destination is looked at, those of --destination as well.
      """)

  @OptionGroup
  var settings: SettingOptions

  @Flag(help: "Print the findings as JSON.")
  var json = false

  @Flag(inversion: .prefixedNo, help: "Publish a small test file.")
  var testFile = true

  @Option(
    help: ArgumentHelp(
      "Publish the content of this file, of up to 64 MiB, as the test file: for servers that take files of some kinds only.",
      valueName: "file"))
  var testSample: String?

  @Flag(inversion: .prefixedNo, help: "Measure how fast uploads are: up to 64 MiB or 8 s, which are not published.")
  var throughput = true

  func run() throws {
    try reportingFailures {
      // A server that goes away is a finding.
      signal(SIGPIPE, SIG_IGN)
      let environment = ProcessInfo.processInfo.environment
      var sources = try settings.sources(environment: environment)
      let hasSpool = sources[.spool] != nil
      // Nothing is captured, so a folder for captures is no condition.
      sources.add(flags: [.spool: "."])
      let configuration = try MountConfiguration(sources)
      let destinations = [configuration] + configuration.further.map(\.configuration)
      let names = [DestinationName.main] + configuration.further.map(\.name)
      var findings = Findings(
        destinations: zip(names, destinations).map { Findings.Subject($0, $1.address) })
      let isAlone = destinations.count == 1
      for (subject, configuration) in zip(findings.destinations, destinations) {
        if !json { StandardOutput.line("\(subject.title(isAlone: isAlone))\n") }
        examineDestination(configuration, environment) { finding in
          findings.add(finding, about: subject.name)
          if !json { StandardOutput.line(finding.words) }
        }
        if !json, !isAlone { StandardOutput.line("") }
      }
      if !json, !isAlone { StandardOutput.line("this machine\n") }
      let machine = MachineExamination(
        .current(spool: hasSpool ? configuration.spool : nil), reserveBytes: configuration.reserveBytes,
        allowOther: configuration.allowOther, passthrough: configuration.passthrough)
      for finding in machine.findings {
        findings.add(finding)
        if !json { StandardOutput.line(finding.words) }
      }
      if json {
        print(String(decoding: findings.json, as: UTF8.self), terminator: "")
      } else {
        StandardOutput.line("\n\(findings.summary)")
      }
      return findings.exitStatus
    }
  }

  private static func sample(_ path: String) throws(ToolFailure) -> TrialSample {
    do {
      return TrialSample(named: path, content: try WholeFile.read(path, bytesMax: TrialSample.bytesMax))
    } catch {
      throw ToolFailure(
        .usage, "--test-sample \(path) cannot be read: \(systemMessage(error.code)) (64 MiB at most)")
    }
  }

  private func examineDestination(
    _ configuration: MountConfiguration, _ environment: [String: String], _ report: (Finding) -> Void
  ) {
    let logger = MountSession.logger(.warning)
    let changed = configuration.timing.changedSettings
    if !changed.isEmpty { report(.settings(changed)) }
    // What a problem with a setting is about.
    var check = Finding.Check.credentials
    do throws(ToolFailure) {
      let renewedCredential = try RenewedCredential(configuration, logger: logger)
      let renewal = try MountSession.credentialRenewal(configuration, logger: logger)
      check = .tls
      let connection = try MountSession.connection(configuration)
      let transport = try MountSession.transport(configuration)
      defer { transport.stop() }
      check = .credentials
      let destination = try MountSession.destination(
        configuration, credential: renewedCredential?.first, renewal: renewal)
      var options = DestinationExamination.Options()
      options.publishesTestFile = testFile
      check = .testFile
      options.sample = try testSample.map(Self.sample)
      options.measuresThroughput = throughput
      options.streams = configuration.parallel
      options.chunkBytes = configuration.chunkBytes
      options.fileBytesMax = configuration.fileBytesMax
      options.environment = environment
      // Some servers repeat what they were sent.
      let mask = try MountSession.mask(renewedCredential, renewal, configuration)
      let own = destination.transport(over: transport)
      DestinationExamination(
        destination: destination,
        transport: MountSession.timed(
          renewedCredential?.transport(over: own, to: destination) ?? own, configuration),
        connection: connection, options: options
      ).run { finding in
        report(finding.hiding { mask.hide(in: $0) })
      }
    } catch {
      report(Finding(check, .problem, error.message, status: error.status))
    }
  }
}
