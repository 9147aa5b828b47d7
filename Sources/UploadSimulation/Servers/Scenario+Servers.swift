import Lookup

// Servers of other protocols, honest and lying ones.
extension Scenario {
  static let tus = Scenario("tus") { $0.useServer(.tus) }
  static let draft = Scenario("draft") { $0.useServer(.draft) }
  static let s3 = Scenario("s3") { $0.useServer(.s3) }
  static let form = Scenario("form") { $0.useServer(.form) }
  static let webDAV = Scenario("webdav") { $0.useServer(.webDAV) }

  static let lyingTus = Scenario("lying-tus") { $0.useLiar(.tus) }
  static let lyingDraft = Scenario("lying-draft") { $0.useLiar(.draft) }
  static let lyingS3 = Scenario("lying-s3") { $0.useLiar(.s3) }
  static let lyingForm = Scenario("lying-form") { $0.useLiar(.form) }
  static let lyingWebDAV = Scenario("lying-webdav") { $0.useLiar(.webDAV) }

  static let lyingTusWords = Scenario("lying-tus-words") { $0.useLiar(.tus, inOwnWords: true) }
  static let lyingDraftWords = Scenario("lying-draft-words") { $0.useLiar(.draft, inOwnWords: true) }
  static let lyingS3Words = Scenario("lying-s3-words") { $0.useLiar(.s3, inOwnWords: true) }

  /// The receiver, in the words of the chunk protocol.
  static let lyingWords = Scenario("lying-words") {
    $0.useLiar(.receiver, inOwnWords: true)
    for code in ["tag-mismatch", "session-damaged", "request-too-large"] { $0.legitimateFailures.insert(code) }
  }

  /// Uploads that go further than was sent of them.
  static let jumpingTus = Scenario("jumping-tus") { $0.useJumper(.tus) }
  static let jumpingDraft = Scenario("jumping-draft") { $0.useJumper(.draft) }

  /// A bucket that refuses each file for longer than its attempts last.
  static let refusingS3 = Scenario("refusing-s3") {
    $0.useLiar(.s3)
    $0.refusesEachBody = true
    $0.seconds = 300...600
    $0.withoutStops()
    $0.receiverCrashes = 0
    // One request for each file: a refusal of a part alone ends no attempts.
    ($0.chunkBytes, $0.wholeFileBytesMax) = (1024, 2000)
  }

  static let servers = [
    tus, draft, s3, form, lyingTus, lyingDraft, lyingS3, lyingForm, lyingTusWords, lyingDraftWords, lyingS3Words,
    lyingWords, jumpingTus, jumpingDraft, refusingS3, webDAV, lyingWebDAV,
  ]

  /// Failures that a user has to act upon after such a server.
  static let legitimateFailuresOfLiars: LookupSet<String> = [
    "session-gone", "incomplete", "unexpected-answer", "conflict", "bad-request", "server-error", "digest-mismatch",
    "too-large", "not-found", "row-lost", "name-refused", "forbidden", "unclear-end",
  ]

  /// A bad network and crashing machines; requests do not arrive twice there, because TLS prevents it.
  private mutating func useServer(_ server: ServerKind) {
    self.server = server
    spoilNetwork(0.03)
    crash(perMinute: 2)
    duplicates = 0
    forgottenSessions = 0.005
    badGateways = 0.01
    busyAnswers = 0.01
    guard server.takesWholeFiles else { return }
    // Each file is one request, and 404 means that a form does not exist.
    (fileBytesMax, chunkBytes, wholeFileBytesMax) = (40, 1024, 2000)
    forgottenSessions = 0
  }

  private mutating func useLiar(_ server: ServerKind, inOwnWords: Bool = false) {
    useServer(server)
    isLiar = true
    liesInOwnWords = inOwnWords
    seconds = 30...200
    legitimateFailures = Self.legitimateFailuresOfLiars
  }
  /// The client is not restarted: it knows nothing of what an earlier run has sent, and has to believe the server
  /// (docs/destinations.md, DE60b).
  private mutating func useJumper(_ server: ServerKind) {
    useLiar(server)
    jumpsWhereItBreaks = true
    withoutStops()
    lostRequests = 0.1
  }

  /// The client is not restarted, and nothing is changed behind its back.
  private mutating func withoutStops() { (clientCrashes, clientStops, crashesInEffects, handEdits) = (0, 0, 0, 0) }
}
