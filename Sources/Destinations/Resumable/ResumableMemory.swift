import FileModel
import Lookup
import Synchronization
import TransferModel

/// Names a small file's content under its name.
struct SmallFile: Hashable {
  private let nonce: [UInt8]
  private let revision: UInt64
  private let path: [UInt8]

  init(_ sending: WholeFileSending) {
    nonce = sending.nonce
    revision = sending.revision
    path = sending.path.bytes
  }
}

/// What one run knows of a server and of its uploads.
final class ResumableMemory: Sendable {
  /// One attempt at a small file. It stays the same as long as the attempt lasts.
  struct Attempt {
    /// What the server takes; nil while it is asked, with the attempt's first request.
    var features: ResumableFeatures?
    /// The server is asked first.
    var asks: Bool
    /// The upload that an earlier attempt has begun; this one probes it first.
    var earlier: String?
  }

  /// What became of an upload that was to be completed.
  enum Completion: Hashable {
    case underWay
    /// An earlier request was not answered.
    case unclear
    /// Likewise, and the step that waits for it knows.
    case told
    case complete
    /// The server has all of it and did not take it.
    case refused
  }

  private struct Small {
    var attempt: Attempt
    /// The upload that was begun for it.
    var upload: String?
  }

  private struct State {
    var features: ResumableFeatures?
    /// What a refusal said beside the features.
    var requestBytesMax: UInt64?
    var files: LookupTable<SmallFile, Small> = [:]
    /// The same, oldest first.
    var order: [SmallFile] = []
    var completions: LookupTable<String, Completion> = [:]
  }

  /// Beyond it all is forgotten.
  private static let uploadsMax = 4096
  /// Beyond it the oldest is forgotten; fewer are in progress.
  private static let filesMax = 512

  /// What ends in the middle of a chunk.
  let uploads = UploadMemory()

  private let state = Mutex(State())

  /// What the server takes, as far as any answer has said it; nil before it was asked.
  var features: ResumableFeatures? {
    get {
      state.withLock { state in
        state.features.map { features in
          var features = features
          features.limits = features.limits.narrowed(to: state.requestBytesMax)
          return features
        }
      }
    }
    set { state.withLock { $0.features = newValue } }
  }

  /// A refusal has said what one request may carry.
  func learn(requestBytesMax: UInt64) {
    state.withLock { $0.requestBytesMax = min($0.requestBytesMax ?? .max, requestBytesMax) }
  }

  // MARK: - Completions

  /// What is known of the completion of an upload; nil where it was not asked for.
  func completion(of upload: String) -> Completion? { state.withLock { $0.completions[upload] } }

  /// The request goes out that completes it.
  func beginsCompletion(of upload: String) {
    state.withLock {
      if $0.completions.count >= Self.uploadsMax { $0.completions = [:] }
      switch $0.completions[upload] {
      case nil, .told: $0.completions[upload] = .underWay
      // The outcome of the one before was never reported.
      case .underWay: $0.completions[upload] = .unclear
      case .unclear, .complete, .refused: break
      }
    }
  }

  /// It is checked, before anything else is asked of it.
  func looksAgain(at upload: String) {
    state.withLock {
      switch $0.completions[upload] {
      case .underWay: $0.completions[upload] = .unclear
      case .told: $0.completions[upload] = nil
      case .unclear, .complete, .refused, nil: break
      }
    }
  }

  /// Its outcome is reported; nil: not yet.
  func ends(_ completion: Completion?, of upload: String) { state.withLock { $0.completions[upload] = completion } }

  // MARK: - Small files

  func beginsAttempt(at file: SmallFile) -> Attempt {
    let features = features
    return state.withLock {
      let known = $0.files[file]
      let attempt = Attempt(features: features, asks: features == nil, earlier: known?.upload)
      $0.files[file] = Small(attempt: attempt, upload: known?.upload)
      if known == nil { $0.order.append(file) }
      if $0.order.count > Self.filesMax { $0.files[$0.order.removeFirst()] = nil }
      return attempt
    }
  }

  /// The attempt that is in progress.
  func attempt(at file: SmallFile) -> Attempt? { state.withLock { $0.files[file]?.attempt } }

  /// The server has said what it takes.
  func attempt(at file: SmallFile, knows features: ResumableFeatures) {
    state.withLock { $0.files[file]?.attempt.features = features }
  }

  /// An upload exists that is this file's.
  func hasBegun(_ upload: String, for file: SmallFile) {
    state.withLock { $0.files[file]?.upload = upload }
  }

  /// The upload that was begun for it.
  func upload(of file: SmallFile) -> String? { state.withLock { $0.files[file]?.upload } }

  /// No later attempt continues it. The attempt that is in progress means the same as before.
  func leaves(_ file: SmallFile) { state.withLock { $0.files[file]?.upload = nil } }
}
