import FileModel
import TransferModel

/// Publishes a small file as a capture would be, and deletes it again where the protocol can.
struct PublicationTrial {
  let exchange: StepExchange
  let endpoint: EndpointID
  let file: TrialFile

  private var publisher: TrialPublisher { TrialPublisher(exchange: exchange, endpoint: endpoint) }

  /// Blocks until it is done.
  func run(clockDifference: Int64?) -> [Finding] {
    let begin = ContinuousClock.now
    let outcome = publisher.publish(file)
    let time = begin.duration(to: .now)
    switch outcome {
    case .published(let receipt):
      return [
        Finding(.credentials, .ok, "the server takes files from us."),
        Finding.published(receipt, in: time, removal: publisher.remove(file, receipt)),
      ]
    case .refused(let failure):
      var finding = Finding.refusal(failure, of: .testFile, clockDifference: clockDifference)
      if failure.kind == .badRequest, finding.advice == nil, mayBeTheFiles {
        finding.advice =
          "Where it takes files of some kinds only, name one of them: --test-sample FILE. Its content is published as "
          + "\(file.path.displayText), with the end of its name."
      }
      return [finding]
    default:
      return [Finding(.testFile, .problem, "the server answered a test file with something that has no meaning here.")]
    }
  }
}

extension PublicationTrial {
  /// A refusal may be of what the file holds, or of its name: stores of objects know no kinds of files, and nothing is checked where
  /// nothing is.
  private var mayBeTheFiles: Bool {
    !exchange.destination.abilities.commitListsChunks && ![404, 405, 410].contains(exchange.lastStatus)
  }
}

extension TrialFile {
  /// All of it in one request; repeated, it is the same request.
  var whole: WholeFileSending {
    WholeFileSending(
      fileID: id, revision: 1, nonce: nonce, path: path, digest: content.digest, body: content,
      modifiedNanoseconds: modifiedNanoseconds, mode: 0o644, sentBytes: SentByteCounter())
  }

  func opening(chunkBytes: Int, sizeBytes: UInt64) -> SessionOpening {
    SessionOpening(
      fileID: id, revision: 1, nonce: nonce, path: path, sizeBytes: sizeBytes, chunkBytes: max(1, chunkBytes),
      modifiedNanoseconds: modifiedNanoseconds, mode: 0o644)
  }
}

extension Finding {
  /// Of a test file that was published.
  static func published(_ receipt: Receipt, in time: Duration, removal: TrialPublisher.Removal) -> Finding {
    let facts = [
      Fact(key: "name", value: .text(receipt.name)),
      Fact(key: "removed", value: .flag(removal == .done)),
      Fact(key: "milliseconds", value: .number(Int64(time / .milliseconds(1)))),
    ]
    let found = "\(receipt.name) was published in \(time.readable)"
    switch removal {
    case .done: return Finding(.testFile, .ok, "\(found) and taken away again.", facts: facts)
    case .impossible:
      return Finding(
        .testFile, .ok,
        "\(found). It stays there, because nobody can take files away through this protocol; the next test replaces it.",
        facts: facts)
    case .failed(let why):
      return Finding(
        .testFile, .warning, "\(found), and cannot be taken away again (\(why)).",
        advice: "Captures need no permission for that. Delete \(receipt.name) by hand, or leave it.", facts: facts)
    }
  }
}
