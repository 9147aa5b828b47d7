/// Whether a file holds what its writers meant it to hold, or something went wrong on the way. A pure value that the
/// filesystem keeps under the file's lock beside ``WriterActivity``.
///
/// What failed is made good by writing to its place, by cutting it off, or by writing the file anew. A writer that died is
/// made good by a later one that changes the file and finishes: it is the one to know. What an earlier run has found missing is
/// missing still, wherever it was: it is made good by writing the file anew alone.
package struct ContentIntegrity: DefaultInitializable, Hashable, Sendable {
  private struct Failed: Hashable, Sendable {
    var range: Range<UInt64>
    var cause: Interruption

    static func anywhere(_ cause: Interruption) -> Failed { Failed(range: 0..<UInt64.max, cause: cause) }

    /// It is unknown what is missing: only when nothing is left of the content, nothing is.
    var isAnywhere: Bool { range == 0..<UInt64.max }
  }

  /// Places that were to be written and were not; apart from each other, ascending.
  private var failed: [Failed] = []
  /// Of this revision, or of an earlier run.
  private var death: Interruption?
  /// An earlier run knew that something is missing.
  private var foundLack: Interruption?

  /// More places than this are taken together: a writer that goes on and on after its writes fail.
  private static let placesMax = 16

  /// A file of which nothing bad is known.
  package init() {}

  /// A file of which an earlier run knew this.
  package init(found interruption: Interruption?) {
    if interruption?.isLack == true { foundLack = interruption } else { death = interruption }
  }

  /// Why the present content is not whole; nil when it is.
  package var interruption: Interruption? { lack ?? death }

  /// What is missing of it, which no later writer makes good by going on.
  package var lack: Interruption? { failed.first?.cause ?? foundLack }

  /// A writer begins to change a file that was settled: what becomes of it is in its hand now.
  package mutating func revisionBegan() { death = nil }

  /// A user wants the content as it is.
  package mutating func accepted() {
    failed = []
    foundLack = nil
    death = nil
  }

  /// A process that had it open for writing was killed.
  package mutating func writerKilled(signal: Int32) { death = .writerKilled(signal: signal) }

  /// Another program has changed it in the spool, past its writers: the next writer that changes it and finishes is the one to know.
  package mutating func changedByHand() { death = .changedInSpool }

  /// A write of these bytes failed.
  package mutating func writeFailed(_ range: Range<UInt64>, _ cause: Interruption) {
    guard !range.isEmpty else { return }
    wrote(range)
    failed.append(Failed(range: range, cause: cause))
    failed.sort { $0.range.lowerBound < $1.range.lowerBound }
    guard failed.count > Self.placesMax, let first = failed.first else { return }
    let end = failed.reduce(0) { max($0, $1.range.upperBound) }
    let cause = (failed.first(where: \.isAnywhere) ?? first).cause
    failed = [Failed(range: first.range.lowerBound..<end, cause: cause)]
  }

  /// What was written earlier may not be on the disk, and it is unknown which part.
  package mutating func lostContent(_ cause: Interruption) {
    // What the disk has lost is not made good by what goes wrong after it.
    guard cause.lossErrno != nil || lossErrno == nil else { return }
    failed = [.anywhere(cause)]
  }

  /// What the disk said when it lost what was written, as long as that is not made good; nil when it lost nothing.
  package var lossErrno: Int32? {
    if let lost = failed.lazy.filter(\.isAnywhere).compactMap(\.cause.lossErrno).first { return lost }
    return if case .lostInWriteBack(let errno, _)? = foundLack { errno } else { nil }
  }

  /// Whether ``wrote(_:)`` and ``truncated(to:)`` could change anything.
  package var hasFailedWrites: Bool { !failed.isEmpty }

  /// A mutation has been carried out.
  package mutating func ended(_ mutation: ContentMutation, writtenBytes: UInt64) {
    switch mutation.extent {
    case .blocks: break
    case .size(let sizeBytes): truncated(to: sizeBytes)
    case .bytes(let range):
      wrote(range.lowerBound..<(range.lowerBound + min(writtenBytes, UInt64(range.count))))
    }
  }

  /// These bytes were written.
  package mutating func wrote(_ range: Range<UInt64>) {
    guard hasFailedWrites else { return }
    failed = failed.flatMap { place in
      place.isAnywhere
        ? [place]
        : [
          place.range.lowerBound..<max(place.range.lowerBound, min(place.range.upperBound, range.lowerBound)),
          min(place.range.upperBound, max(place.range.lowerBound, range.upperBound))..<place.range.upperBound,
        ].filter { !$0.isEmpty }.map { Failed(range: $0, cause: place.cause) }
    }
  }

  /// The file has this size now.
  package mutating func truncated(to sizeBytes: UInt64) {
    failed = failed.compactMap { place in
      guard place.range.lowerBound < sizeBytes else { return nil }
      return place.isAnywhere
        ? place : Failed(range: place.range.lowerBound..<min(place.range.upperBound, sizeBytes), cause: place.cause)
    }
    if sizeBytes == 0 { (death, foundLack) = (nil, nil) }
  }
}

extension Interruption {
  /// Bytes of the content are missing, as opposed to a content whose end was not said.
  package var isLack: Bool {
    switch self {
    // What nothing proves to be there counts as missing.
    case .writeRefused, .writeFailed, .changeRefused, .notOnDisk, .lostInWriteBack, .unproven: true
    case .writerKilled, .mountDied, .changedInSpool, .olderThanDelivered, .spoolUnreadable, .spoolFailing: false
    }
  }

  /// Of a content that was written, and that its disk did not keep.
  fileprivate var lossErrno: Int32? {
    switch self {
    case .writeFailed(let errno), .lostInWriteBack(let errno, _): errno
    case .writeRefused, .changeRefused, .writerKilled, .mountDied, .notOnDisk, .changedInSpool, .olderThanDelivered,
      .spoolUnreadable, .spoolFailing, .unproven:
      nil
    }
  }
}
