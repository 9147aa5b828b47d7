import Lookup
import OrderedCollections

extension ReceiverCore {
  /// A root that is being counted.
  struct Measurement: Sendable {
    /// Published since the count began. It may have been counted or not.
    var publishedBytes: UInt64 = 0
    var count = 1
  }

  /// Of a root in which something is always being published.
  private static let measurementsMax = 3

  /// Why so many more bytes cannot be taken; nil when they can. A quota counts sizes, and so may count more than the disk has to take.
  mutating func spaceRefusal(
    _ bytes: UInt64, ofQuota quotaBytes: UInt64? = nil, for credential: CredentialID, freeBytes: UInt64?
  ) -> Refusal? {
    guard let freeBytes else { return .diskSilent }
    let (needed, isTooLarge) = bytes.addingReportingOverflow(limits.headroomBytes)
    if isTooLarge || freeBytes < needed {
      return Refusal(
        .insufficientStorage,
        "the receiver's disk is full: \(freeBytes) bytes are free, \(bytes) more with \(limits.headroomBytes) in reserve are needed"
      )
    }
    guard let quota = credentials[credential]?.quotaBytes else { return nil }
    let used = usedBytes(of: credential)
    let bytes = quotaBytes ?? bytes
    guard bytes > quota || used > quota - bytes else { return nil }
    remeasure(credential)
    return Refusal(
      .quotaExceeded,
      "the quota of \(quota) bytes is used up: \(used) are taken, \(bytes) more are needed\(unfinished(of: credential))"
    )
  }

  /// What of that its uploads take that are not published, which its machines may have forgotten; empty where there are none.
  private func unfinished(of credential: CredentialID) -> String {
    let open = (openSessions[credential] ?? []).compactMap { sessions[$0] }
    guard !open.isEmpty else { return "" }
    let bytes = open.reduce(UInt64(0)) { $0 &+ $1.footprintBytes }
    return
      "; unfinished uploads: \(open.count), which take \(bytes) bytes. The receiver's operator can list them (uploadfs-receiver "
      + "sessions) and end those of machines that are gone (uploadfs-receiver end)"
  }

  /// What lies under the credential's root and in its open sessions, and what comes in one request.
  func usedBytes(of credential: CredentialID) -> UInt64 {
    let inOneRequest = (publishedBytes[credential] ?? 0) &+ (wholeFileBytes[credential] ?? 0)
    return (openSessions[credential] ?? []).reduce(inOneRequest) { bytes, id in
      bytes &+ (sessions[id]?.footprintBytes ?? 0)
    }
  }

  /// Why a session is not kept beyond its age; nil when it is. What is kept for ever has a bound: a quota, or one for those without.
  func relianceRefusal(_ session: UploadSession) -> Refusal? {
    let credential = session.facts.credentialID
    guard credentials[credential]?.quotaBytes == nil else { return nil }
    let id = session.facts.sessionID
    let others = (openSessions[credential] ?? []).reduce(UInt64(0)) { bytes, other in
      guard other != id, let other = sessions[other], other.mayHoldOnlyCopy else { return bytes }
      return bytes &+ other.heldBytes &+ other.unverifiedBytes
    }
    let bytes = others &+ session.heldBytes
    guard bytes > limits.durableBytesMax else { return nil }
    return Refusal(
      .quotaExceeded,
      "uploads that are kept until they are delivered would take \(bytes) bytes; at most \(limits.durableBytesMax) are kept (--durable-max). The receiver's operator can end those of machines that are gone"
    )
  }

  /// Files may have been deleted behind the receiver's back, so a full quota is counted again, at most every 10 seconds.
  private mutating func remeasure(_ credential: CredentialID) {
    guard now >= nextMeasurement[credential] ?? 0 else { return }
    nextMeasurement[credential] = now + 10_000
    // One that has not come to its end is still told what is published.
    if measurements[credential] == nil { measurements[credential] = Measurement() }
    effects.append(.measureUsage(credential))
  }

  /// What was published during the count is added: that may count it twice, which never lets more in than the quota. The
  /// next count, in a moment in which nothing is published, is exact.
  mutating func usageMeasured(_ credential: CredentialID, bytes: UInt64) {
    let measurement = measurements.removeValue(forKey: credential)
    let during = measurement?.publishedBytes ?? 0
    publishedBytes[credential] = bytes &+ during
    guard let measurement, during > 0, measurement.count < ReceiverCore.measurementsMax else { return }
    measurements[credential] = Measurement(count: measurement.count + 1)
    effects.append(.measureUsage(credential))
  }

  mutating func countPublished(_ sizeBytes: UInt64, replacing replacedBytes: UInt64, for credential: CredentialID) {
    let before = publishedBytes[credential] ?? 0
    publishedBytes[credential] = before - min(before, replacedBytes) &+ sizeBytes
    measurements[credential]?.publishedBytes += sizeBytes
  }
}
