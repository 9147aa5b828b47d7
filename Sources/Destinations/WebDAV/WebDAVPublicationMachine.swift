import FileModel
import Integrity
import TransferModel

/// Under which condition a file gets its name.
enum WebDAVCondition: Hashable {
  case none
  /// Nothing has the name.
  case free
  /// What has it is this one.
  case tag(String)
}

/// How a new name is said (`Destination`; RFC 4918, 10.3).
enum WebDAVNameForm: Hashable {
  /// As a path: behind a proxy a server may know itself by another scheme or host, and take an address for another server's.
  case path
  /// With scheme and host, where the server wants that (Apache).
  case address
  /// With the scheme of a server before which something else does TLS.
  case addressWithoutTLS
}

/// The requests of one file: its folder is made, its bytes go under a temporary name, what the server then has is compared, and it moves to
/// its name under a condition. What a name's owner is is asked right before, since servers ignore conditions.
struct WebDAVPublicationMachine {
  enum Turn: Hashable {
    /// Whether the address's own folder is there.
    case askForFolder
    /// This folder below it is made; 405 where there is one.
    case makeFolder(String)
    case send
    case mark
    case probeUpload
    case probe(String)
    case move(String, WebDAVCondition, WebDAVNameForm)
    /// What the name has once the file has got it.
    case check(String)
    case discard(String)
    case end
  }

  enum End {
    case published(WebDAVResource)
    case refused(WebDAVAnswer, to: String)
    /// The address's own folder is not there, or nothing there speaks WebDAV.
    case noFolder(WebDAVAnswer)
    /// The server has another number of bytes, or says another digest of them.
    case damaged(String)
    case taken(String)
    /// With `replace` a folder has the name.
    case folderInTheWay(String)
    /// What has the name changes with every question.
    case restless(String)
    /// The server says that it has done something, and then that it has not.
    case contradiction(String)
  }

  /// Requests that give the name, each after another probe.
  private static let movesMax = 16

  private(set) var turn: Turn
  private(set) var search: NameSearch
  /// What lies under the temporary name, and is as it should be.
  private(set) var upload: WebDAVResource?
  /// What became of the file, while something is still taken away behind it.
  private(set) var end: End?
  /// The name that was asked for last.
  private(set) var movedTo: String?
  private(set) var hasSent = false
  /// How the server wants a new name.
  private(set) var nameForm: WebDAVNameForm
  /// What the answers say of the server.
  private(set) var folderIsThere: Bool?
  private(set) var keepsMarks: Bool?
  private(set) var keepsNoConditions = false

  private let claim: WebDAVClaim
  private let ifExists: FileSettings.IfExists
  private let folders: [String]
  private let temporaryName: String
  private let contentSHA256: Digest32?
  private var marks: Bool
  private var markAnswer: WebDAVAnswer?
  private var sendsConditions: Bool
  private var leftovers: [String]
  /// How many of the folders were asked for, and whether from the outermost on.
  private var depth: Int
  private var isDescending = false
  /// A request of this file has found the folder.
  private var isSureOfFolder = false
  private var earlierName: String?
  private(set) var isUploadGone = false
  /// Another try was told that the server has taken all bytes.
  private var wasSent = false
  private let hasTLS: Bool
  private var refusedTag: String?
  private var moves = 0

  /// `contentSHA256` is in hexadecimal, where it is known.
  init(
    claim: WebDAVClaim, ifExists: FileSettings.IfExists, search: NameSearch, folders: [String], temporaryName: String,
    contentSHA256: Digest32?, hasTLS: Bool, _ beginning: WebDAVMemory.Beginning
  ) {
    (self.claim, self.ifExists, self.search, self.folders) = (claim, ifExists, search, folders)
    (self.temporaryName, self.contentSHA256, self.hasTLS) = (temporaryName, contentSHA256, hasTLS)
    nameForm = beginning.nameForm
    (marks, sendsConditions) = (beginning.marks, beginning.sendsConditions)
    leftovers = beginning.leftovers
    depth = folders.count
    turn = .send
    if let sent = beginning.sent {
      (upload, earlierName, wasSent) = (sent.resource, sent.name, true)
      turn = .probeUpload
    } else if !beginning.knowsFolder {
      findFolder()
    }
  }

  mutating func take(_ response: HTTPResponse) {
    let answer = WebDAVAnswer(response)
    switch turn {
    case .askForFolder: foundFolder(answer)
    case .makeFolder: madeFolder(answer)
    case .send: sent(answer)
    case .mark:
      markAnswer = answer
      turn = .probeUpload
    case .probeUpload: probedUpload(answer)
    case .probe(let name): probed(answer, at: name)
    case .move(let name, let condition, _): moved(answer, to: name, condition)
    case .check(let name): checked(answer, name)
    case .discard: discardNext()
    case .end: break
    }
  }

  // MARK: - The folder

  /// From the innermost on: mostly it is there, or lacks alone.
  private mutating func findFolder() {
    depth = folders.count
    isDescending = false
    turn = depth == 0 ? .askForFolder : .makeFolder(folders[depth - 1])
  }

  private mutating func foundFolder(_ answer: WebDAVAnswer) {
    guard let resource = WebDAVResource(answer.response) else {
      let isNoServer = answer.isNotThere || [200, 405, 501].contains(answer.status)
      return finish(isNoServer ? .noFolder(answer) : .refused(answer, to: "say whether its folder is there"))
    }
    guard resource.isFolder else { return finish(.noFolder(answer)) }
    isDescending = true
    nextFolder()
  }

  private mutating func madeFolder(_ answer: WebDAVAnswer) {
    if answer.isSuccess || answer.status == 405 || answer.leads(toFolder: folders[depth - 1]) { return nextFolder() }
    guard answer.status == 409 || answer.isNotThere, !isDescending else {
      return finish(.refused(answer, to: "make the folder \(folders[depth - 1])"))
    }
    depth -= 1
    turn = depth == 0 ? .askForFolder : .makeFolder(folders[depth - 1])
  }

  private mutating func nextFolder() {
    isDescending = true
    guard depth < folders.count else {
      (isSureOfFolder, folderIsThere) = (true, true)
      turn = .send
      return
    }
    depth += 1
    turn = .makeFolder(folders[depth - 1])
  }

  // MARK: - The bytes

  private mutating func sent(_ answer: WebDAVAnswer) {
    if answer.isSuccess {
      hasSent = true
      if let said = WebDAVChecksum.sha256(in: answer.response.header("oc-checksum")), isWrong(said) { return }
      turn = marks ? .mark : .probeUpload
      return
    }
    // nginx says 500 where the folder is not there, others where anything failed: the next try makes sure of it.
    if answer.status == 500 { folderIsThere = false }
    guard answer.status == 409 || answer.isNotThere, !isSureOfFolder else {
      return finish(.refused(answer, to: "take a file in \(folders.last ?? "its folder")"))
    }
    folderIsThere = false
    findFolder()
  }

  /// True where the server says another digest than that of the bytes that were sent.
  private mutating func isWrong(_ said: String) -> Bool {
    guard let contentSHA256, said != Hex.encode(contentSHA256) else { return false }
    finish(.damaged("says that their SHA-256 is \(said), and \(contentSHA256) was sent"))
    return true
  }

  private mutating func probedUpload(_ answer: WebDAVAnswer) {
    guard let resource = WebDAVResource(answer.response) else {
      guard answer.isNotThere else { return finish(.refused(answer, to: "say what it has of the file")) }
      guard !hasSent else { return finish(.contradiction("took a file and does not have it")) }
      // Of an earlier try: it was moved, or another client has removed it.
      isUploadGone = true
      if let earlierName { turn = .probe(earlierName) } else { sendAgain() }
      return
    }
    if let size = resource.sizeBytes, size != claim.sizeBytes {
      guard hasSent else { return sendAgain() }
      return finish(.damaged("has \(size) of \(claim.sizeBytes) bytes"))
    }
    if !hasSent, let upload, upload.version != resource.version { return sendAgain() }
    if let said = WebDAVChecksum.sha256(in: resource.checksums), isWrong(said) { return }
    upload = resource
    guard marks else { return turn = .probe(search.key) }
    if resource.mark == claim.mark {
      keepsMarks = true
      return turn = .probe(search.key)
    }
    // It is of an earlier try.
    guard let markAnswer else { return turn = .mark }
    if markAnswer.saysNothingOfMarks { return finish(.refused(markAnswer, to: "keep the mark of an upload")) }
    (marks, keepsMarks) = (false, false)
    turn = .probe(search.key)
  }

  private mutating func sendAgain() {
    (upload, isUploadGone, earlierName, wasSent) = (nil, false, nil, false)
    findFolder()
  }

  // MARK: - The name

  private mutating func probed(_ answer: WebDAVAnswer, at name: String) {
    let standing: WebDAVNameOwnership
    var found: WebDAVResource?
    if answer.isNotThere {
      standing = .free
    } else if answer.leads(toFolder: name) {
      standing = .folder
    } else if let resource = WebDAVResource(answer.response) {
      standing = claim.standing(of: resource, moved: isUploadGone ? upload : nil)
      found = resource
    } else {
      return finish(.refused(answer, to: "say what is called \(name)"))
    }
    if standing == .made, let found {
      movedTo = name
      if !isUploadGone { leftovers.insert(temporaryName, at: 0) }
      return finish(.published(found))
    }
    guard !isUploadGone else { return hasSent ? finish(.contradiction("lost a file that it had")) : sendAgain() }
    switch (standing, ifExists) {
    case (.folder, .replace): finish(.folderInTheWay(name))
    case (_, .replace): move(to: name, found == nil ? .free : .none)
    case (.free, _):
      if search.foundFree() { move(to: name, .free) } else { turn = .probe(search.key) }
    case (.replaceable, _): replace(found, called: name)
    case (.folder, _), (.taken, _), (.made, _):
      guard ifExists == .number, search.foundTaken() else { return finish(.taken(name)) }
      turn = .probe(search.key)
    }
  }

  /// A server that refuses a condition which is met knows none of that kind (those in Go).
  private mutating func replace(_ found: WebDAVResource?, called name: String) {
    guard sendsConditions, let tag = found?.entityTag else { return move(to: name, .none) }
    guard tag != refusedTag else {
      (sendsConditions, keepsNoConditions) = (false, true)
      return move(to: name, .none)
    }
    move(to: name, .tag(tag))
  }

  private mutating func move(to name: String, _ condition: WebDAVCondition) {
    moves += 1
    guard moves <= Self.movesMax else { return finish(.restless(name)) }
    movedTo = name
    turn = .move(name, condition, nameForm)
  }

  private mutating func moved(_ answer: WebDAVAnswer, to name: String, _ condition: WebDAVCondition) {
    switch answer.status {
    case _ where answer.isSuccess:
      isUploadGone = true
      turn = .check(name)
    case 412:
      if case .tag(let tag) = condition { refusedTag = tag }
      turn = .probe(name)
    case 404, 410:
      isUploadGone = true
      turn = .probe(name)
    case 400 where nameForm == .path:
      nameForm = .address
      move(to: name, condition)
    case 400 where nameForm == .address && hasTLS, 502 where nameForm == .address && hasTLS:
      nameForm = .addressWithoutTLS
      move(to: name, condition)
    case 409:
      folderIsThere = false
      finish(.refused(answer, to: "call the file \(name)"))
    default: finish(.refused(answer, to: "call the file \(name)"))
    }
  }

  private mutating func checked(_ answer: WebDAVAnswer, _ name: String) {
    guard let resource = WebDAVResource(answer.response) else {
      // A page in place of both answers would be no delivery: the next try finds the file where it is.
      guard answer.isNotThere else { return finish(.refused(answer, to: "say what is called \(name)")) }
      return finish(.contradiction("called a file \(name) and does not have it"))
    }
    guard !resource.isFolder, resource.sizeBytes.map({ $0 == claim.sizeBytes }) ?? true else {
      return finish(.contradiction("has another file than the one that it called \(name)"))
    }
    finish(.published(resource))
  }

  // MARK: - The end

  /// Removes uploads that no later try of the file uses.
  private mutating func finish(_ end: End) {
    self.end = end
    if leavesUpload(end) { leftovers.insert(temporaryName, at: 0) }
    discardNext()
  }

  /// Something lies under the temporary name.
  var leavesSomething: Bool { (upload != nil || hasSent || wasSent) && !isUploadGone }

  /// The server has said that it took all bytes, and nothing was found that speaks against it: what lies there is compared before it gets
  /// its name, by this try or a later one.
  var hasUpload: Bool {
    if upload != nil { return true }
    switch end {
    case .damaged, .contradiction: return false
    default: return hasSent || wasSent
    }
  }

  private func leavesUpload(_ end: End) -> Bool {
    guard leavesSomething else { return false }
    switch end {
    case .damaged, .taken, .folderInTheWay: return true
    // The next try needs what was sent, or it is not there any more.
    case .published, .refused, .noFolder, .restless, .contradiction: return false
    }
  }

  private mutating func discardNext() {
    turn = leftovers.isEmpty ? .end : .discard(leftovers.removeFirst())
  }
}
