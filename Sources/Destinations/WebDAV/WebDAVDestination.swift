import ChunkProtocol
public import FileModel
import Integrity
public import TransferModel

/// What can be chosen about a WebDAV server.
public struct WebDAVOptions: Hashable, Sendable {
  /// What to do when a name is another capture's.
  public var ifExists = FileSettings.IfExists.number
  /// Requests in flight.
  public var parallelRequests = UploadConstants.maxParallelChunkUploads
  /// A larger file is read while it is sent.
  public var bufferBytes = UploadConstants.chunkBytesDefault

  /// The defaults.
  public init() {}
}

/// A WebDAV server (docs/destinations.md#webdav): each file is one PUT under a temporary name in its folder, and a MOVE
/// to its own.
///
/// RFC 4918 cannot continue a PUT that broke off, so that is sent again. What was sent whole and was not published is not.
public struct WebDAVDestination: Destination {
  /// What a WebDAV server can do.
  public let abilities: DestinationAbilities
  /// The folder's address, without credentials.
  public var displayURL: String { address.text }

  let address: WebDAVAddress
  let options: WebDAVOptions
  let authorization: String?
  let memory = WebDAVMemory()
  let whenConditionsFail: @Sendable (_ text: String) -> Void
  private let question = BodyQuestion()

  /// A folder of a server. Without credential only servers that ask for none will answer. `whenConditionsFail` is told once, from any
  /// thread and in words for people, where the server turns out to keep no condition on what is replaced.
  public init(
    address: WebDAVAddress, credential: Credential?, options: WebDAVOptions = WebDAVOptions(),
    whenConditionsFail: @escaping @Sendable (_ text: String) -> Void = { _ in }
  ) throws(DestinationError) {
    try credential?.check()
    guard options.parallelRequests > 0, options.bufferBytes > 0 else {
      throw DestinationError(.invalidOption, "A limit of the WebDAV destination is 0.")
    }
    self.address = address
    self.options = options
    self.whenConditionsFail = whenConditionsFail
    authorization = credential?.authorization
    var abilities = DestinationAbilities(
      parallelChunks: options.parallelRequests, replaceableChunks: false, unknownLength: false,
      wholeFileBytesMax: options.bufferBytes, fileBytesMax: nil)
    abilities.streamsWholeFiles = true
    abilities.ifExists = options.ifExists
    abilities.comparesObjects = true
    self.abilities = abilities
  }

  /// The path as text: servers make names of their filesystem of it, and few take other bytes.
  public func publishedName(for path: RelativePath) -> String { TextName.inAddress.of(path) }

  /// With Digest authentication where the server asks for it, and what takes away uploads that are broken off.
  public func transport(over transport: any HTTPTransport) -> any HTTPTransport {
    WebDAVTransport(transport, address: address)
  }

  // MARK: - Requests

  /// The request that carries out a step. There is one address.
  public func request(for step: DestinationStep, at endpoint: EndpointID = .first) -> HTTPRequest {
    switch step {
    case .wholeFile(let sending):
      begin(sending)
      return followUp(of: step, after: [], at: endpoint) ?? folderRequest
    case .prewarm: return request(.options, address.path(ofFolder: ""))
    // There are no sessions; the answer says whether the credentials count.
    case .querySession, .secureSession, .openSession, .chunk, .run, .zeros, .commit, .abort, .bundle:
      return folderRequest
    }
  }

  /// The next request of a file.
  public func followUp(
    of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID
  ) -> HTTPRequest? {
    guard case .wholeFile(let sending) = step else { return nil }
    let machine = machine(of: sending, responses)
    switch machine.turn {
    case .askForFolder: return folderRequest
    case .makeFolder(let folder): return request(.mkcol, address.path(ofFolder: folder))
    case .send: return fileRequest(sending)
    case .mark:
      return request(
        .proppatch, address.path(of: temporaryName(of: sending)), xml: WebDAVMark.setting(Hex.encode(sending.nonce)))
    case .probeUpload: return probeRequest(temporaryName(of: sending))
    case .probe(let name), .check(let name): return probeRequest(name)
    case .move(let name, let condition, let form): return moveRequest(sending, to: name, condition, form)
    case .discard(let name): return request(.delete, address.path(of: name))
    case .end: return nil
    }
  }

  /// Takes a file away.
  public func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest? {
    request(.delete, address.path(of: receipt.publishedAs ?? publishedName(for: path)))
  }

  private func fileRequest(_ sending: WholeFileSending) -> HTTPRequest {
    var limits = HTTPRequestLimits.forBody(of: Int(clamping: sending.sizeBytes))
    var body = HTTPRequest.Body.bytes([])
    if let bytes = sending.body { body = .pinned(bytes) }
    if let stream = sending.stream {
      body = .pieces([.streamed(stream)])
      limits = HTTPRequestLimits(total: .zero, stall: UploadConstants.stallDetection)
    }
    limits.answer = HTTPRequestLimits.answerTime(forBodyOf: Int(clamping: sending.sizeBytes))
    let name = TextName.usual.ofLastComponent(sending.path)
    var put = request(
      .put, address.path(of: temporaryName(of: sending)),
      headers: [
        HTTPHeader("Content-Type", MIMEType.ofFile(named: name)),
        // As ownCloud has it; others leave the time to the server.
        HTTPHeader("X-OC-Mtime", "\(sending.modifiedNanoseconds / 1_000_000_000)"),
      ], body: body, limits: limits)
    put.sentBytes = sending.sentBytes
    // A wrong password is not to cost the whole file.
    put.asksBeforeBody = mayAsk(before: sending) && question.isAsked
    return put
  }

  private func mayAsk(before sending: WholeFileSending) -> Bool { sending.stream != nil && authorization != nil }

  private var folderRequest: HTTPRequest {
    request(
      .propfind, address.path(ofFolder: ""), headers: [HTTPHeader("Depth", "0")], xml: WebDAVMark.question)
  }

  private func probeRequest(_ name: String) -> HTTPRequest {
    request(.propfind, address.path(of: name), headers: [HTTPHeader("Depth", "0")], xml: WebDAVMark.question)
  }

  private func moveRequest(
    _ sending: WholeFileSending, to name: String, _ condition: WebDAVCondition, _ form: WebDAVNameForm
  ) -> HTTPRequest {
    let destination = "\(start(of: form))\(address.path(of: name))"
    var headers = [HTTPHeader("Destination", destination)]
    switch condition {
    case .free: headers.append(HTTPHeader("Overwrite", "F"))
    case .none: headers.append(HTTPHeader("Overwrite", "T"))
    case .tag(let tag): headers += [HTTPHeader("Overwrite", "T"), HTTPHeader("If", "<\(destination)> ([\(tag)])")]
    }
    // Some servers copy.
    let time = HTTPRequestLimits.answerTime(forBodyOf: Int(clamping: sending.sizeBytes))
    var move = request(
      .move, address.path(of: temporaryName(of: sending)), headers: headers, limits: HTTPRequestLimits(total: time))
    move.isSentOnce = true
    return move
  }

  private func start(of form: WebDAVNameForm) -> String {
    switch form {
    case .path: ""
    case .address: address.origin
    case .addressWithoutTLS: address.origin.replacing("https://", with: "http://", maxReplacements: 1)
    }
  }

  private func request(
    _ method: HTTPRequest.Method, _ path: String, headers: [HTTPHeader] = [], xml: [UInt8]
  ) -> HTTPRequest {
    request(
      method, path, headers: headers + [HTTPHeader("Content-Type", "application/xml; charset=utf-8")],
      body: .bytes(xml))
  }

  private func request(
    _ method: HTTPRequest.Method, _ path: String, headers: [HTTPHeader] = [], body: HTTPRequest.Body = .none,
    limits: HTTPRequestLimits = HTTPRequestLimits()
  ) -> HTTPRequest {
    let credential = authorization.map { [HTTPHeader("Authorization", $0)] } ?? []
    return HTTPRequest(method, address.origin + path, headers: credential + headers, body: body, limits: limits)
  }

  /// The server refused to be asked before a large body.
  func refusedQuestion(_ sending: WholeFileSending, _ response: HTTPResponse) -> StepOutcome? {
    guard response.status == 417, mayAsk(before: sending), question.isAsked else { return nil }
    question.refused()
    let said = "The server at \(address.text) answered 417: it is not to be asked before a large file (Expect)"
    return .refused(StepFailure(.unexpectedAnswer, "\(said). The file goes out without that."))
  }
}
