import CCurl
import TransferModel

/// Which version of HTTP a request is sent with, and why.
enum VersionChoice: Hashable {
  /// By the settings.
  case fixed(ProtocolTrial.Version)
  /// By what its server's trial has said, which hears of its end.
  case tried(ProtocolTrial.Version)

  /// The server may choose HTTP/2 for it.
  var offersHTTP2: Bool {
    switch self {
    case .fixed(let version), .tried(let version): version == .http2
    }
  }
}

/// One request in flight. Belongs to the curl thread, from the start to its completion; libcurl's callbacks reach it
/// through an unretained pointer, which is sound because the loop keeps the transfer until its easy handle has left the
/// multi handle.
final class CurlTransfer {
  let id: HTTPRequestID
  let handle: EasyHandle
  private let request: HTTPRequest
  private let target: RequestTarget
  /// Whether it may wait for a connection that another one makes.
  private let sharesConnection: Bool
  /// What it is sent with.
  let versionChoice: VersionChoice
  /// What it goes through; nil where it goes directly.
  private let proxy: String?
  private let connectLimit: Duration
  /// The race that it has waited for.
  private let race: RaceOutcome?
  /// Looks into the handshakes of its connections; nil where there are none.
  let handshake: Handshake?
  /// It was about to go over a connection whose handshake was not watched.
  private var isUnwatched = false
  private let onCompletion: @Sendable (Result<HTTPResponse, TransportError>) -> Void
  /// What the request owns of its body, copied: the address of an array's bytes is not guaranteed beyond one call.
  private let ownedBytes: UnsafeMutableRawBufferPointer?
  private var head = ResponseHead()
  private var responseBody: [UInt8] = []
  private var stallMeter: StallMeter?
  private var arrival = BodyArrival()
  private var movedBytes = 0
  /// Its connection's counts when they were last looked at; nil before it has one.
  private var socketCounts: SocketCounts?
  /// When it was begun on its connection; nil before that.
  private var begunAt: ContinuousClock.Instant?
  /// What its connection is to have; nil for what it has.
  private var congestionControl: String?
  /// Why a callback broke the transfer off; libcurl itself only knows that it did.
  private var violation: String?
  /// How often libcurl was about to send it.
  private var beginnings = 0
  /// It was begun, and there was no other connection for it when it was to be begun again: all of it may have been sent before.
  private var wasGivenUp = false
  /// The part of the body that comes while it is sent, and the bytes of it that libcurl reads from.
  private let stream: (any StreamedBytes)?
  private var streamedBytes: (any PinnedBytes)?
  /// It has asked for more and waits: the network is not to blame that nothing moves.
  private var isStarved = false
  /// Why it came to no good end.
  private var streamFailure: String?
  /// Those that share a bound with it; nil where nothing bounds the rate.
  private let turns: SendTurns?
  /// It waits for its turn to send, or has since the last look for a stall.
  private var (isPaced, wasPaced) = (false, false)

  /// The server that it goes to.
  var origin: String { target.origin }

  /// That of its connection; −1 where it is not known.
  var socket: Int32 { arrival.socket }

  /// Likewise, where it is called by a name.
  var namedServer: NamedServer? { target.namedServer }

  /// It ended without a connection that it could be sent over. Of an address that does not answer libcurl says that the time is over.
  func foundNoServer(_ error: TransportError) -> Bool {
    beginnings == 0 && (error.kind == .connectFailed || error.kind == .timedOut)
  }

  /// How long the server, or the proxy before it, took to take the connection that was made for it; zero where there was one before, or
  /// nothing has answered.
  var handshakeTime: Duration {
    guard handle.fact(CURLINFO_NUM_CONNECTS) > 0 else { return .zero }
    return max(.zero, handle.time(CURLINFO_CONNECT_TIME_T) - handle.time(CURLINFO_NAMELOOKUP_TIME_T))
  }

  /// Prepares the request on a fresh or reset handle. `multiplexed` are servers of which it is known that they take several
  /// requests over one connection where HTTP/2 is offered to them, `congestionControl` what its connection is to have. `wake` is called on any thread when there is more to be sent, and is
  /// to lead to ``resume()``.
  init(
    _ waiting: PendingHTTPRequest, on handle: EasyHandle, with settings: TransferSettings,
    over versionChoice: VersionChoice,
    sharing multiplexed: Set<String>, reusing reuse: ConnectionAges.Reuse, connecting limits: ConnectLimits,
    sending congestionControl: String?, within turns: SendTurns?, to addresses: [SocketAddress],
    after race: RaceOutcome?,
    wake: @escaping @Sendable () -> Void
  ) throws(TransportError) {
    guard let target = RequestTarget(url: waiting.request.url), settings.allows(target.scheme) else {
      throw TransportError(.other, settings.refusal(ofURL: waiting.request.url))
    }
    id = waiting.id
    self.handle = handle
    self.target = target
    self.versionChoice = versionChoice
    sharesConnection = versionChoice.offersHTTP2 && multiplexed.contains(target.origin)
    proxy = settings.proxyUse.address(forHost: target.host, isEncrypted: target.scheme == "https")
    self.congestionControl = congestionControl
    self.race = race
    handshake = try settings.handshake(with: target, through: proxy)
    request = waiting.request
    connectLimit = limits.limit(waiting.request.limits.connect, for: target.origin)
    onCompletion = waiting.onCompletion
    ownedBytes = Self.copy(of: waiting.request.body)
    stallMeter = StallMeter(waiting.request.limits, bodyByteCount: waiting.request.body.byteCount)
    stream = waiting.request.body.stream
    self.turns = turns
    try configure(settings, reuse)
    try handle.setAddresses(addresses, of: target)
    stream?.begin(whenReady: wake)
    noteHandedOver()
  }

  deinit { ownedBytes?.deallocate() }

  /// Reports the end of the transfer, once.
  func complete(_ result: Result<HTTPResponse, TransportError>) {
    streamedBytes = nil
    stream?.end()
    noteHandedOver()
    onCompletion(
      result.mapError { error in
        var error = error
        error.mayHaveArrived = request.body.byteCount == 0 ? beginnings > 0 : handle.hasGivenBody || wasGivenUp
        return error
      })
  }

  /// Of what was begun anew it is not known how far it had come before.
  private func noteHandedOver() {
    request.sentBytes?.handOver(
      UInt64(clamping: beginnings > 1 || wasGivenUp ? request.body.byteCount : handle.givenBodyBytes))
  }

  /// There is more to be sent.
  func resume() { handle.resume() }

  /// Its turn to send has come.
  func goOn() {
    isPaced = false
    handle.resume()
  }

  /// The error for a transfer that was ended by this side.
  func error(_ kind: TransportError.Kind, _ reason: String) -> TransportError {
    TransportError(kind, "the request to \(target.host) was ended: \(reason)")
  }

  /// True when a timer has to check the transfer while nothing moves.
  var hasStallLimit: Bool { stallMeter != nil }

  /// Samples how far it is. What has moved since the last sample, in both directions.
  /// - Parameter isShared: Other transfers may be in flight on its connection.
  func measure(isShared: Bool) -> Int {
    arrival.measure(
      handed: handle.count(CURLINFO_SIZE_UPLOAD_T), bodyBytes: request.body.byteCount, isShared: isShared)
    request.sentBytes?.set(UInt64(clamping: arrival.bytes))
    noteHandedOver()
    let bytes = arrival.bytes &+ handle.count(CURLINFO_SIZE_DOWNLOAD_T)
    defer { movedBytes = bytes }
    return max(0, bytes &- movedBytes)
  }

  /// How its connection stands; nil before it has one, and for a request without a body.
  var packetLook: PathMTU.Look? {
    guard request.body.byteCount > 0, let begunAt, let counts = SocketCounts(of: arrival.socket) else { return nil }
    return PathMTU.Look(
      begunAt: begunAt, segmentBytes: Int(counts.segmentBytes), acknowledged: arrival.acknowledgedBytes,
      unacknowledged: Int(clamping: uploadfs_unacknowledged_bytes(arrival.socket)),
      retransmissions: Int(counts.retransmissions), isNewConnection: handle.fact(CURLINFO_NUM_CONNECTS) > 0)
  }

  /// How it stands, after the network has changed; nil where that ends nothing: it is still connecting, or must not be sent twice.
  func pathLook() -> PathMoves.Look? {
    guard !request.isSentOnce, arrival.socket >= 0 else { return nil }
    return PathMoves.Look(
      state: PathState(of: arrival.socket), moved: arrival.acknowledgedBytes + handle.count(CURLINFO_SIZE_DOWNLOAD_T),
      roundTrip: SocketCounts(of: arrival.socket)?.roundTrip ?? .zero,
      hasUnacknowledged: uploadfs_unacknowledged_bytes(arrival.socket) > 0)
  }

  /// How far it is with its body since it was begun; nil before that. What the socket has counts: it goes out in any case.
  func sending(at now: ContinuousClock.Instant) -> (bodyBytes: Int, sent: Int, age: Duration)? {
    begunAt.map { (request.body.byteCount, handle.count(CURLINFO_SIZE_UPLOAD_T), now - $0) }
  }

  /// What its connection's packets have done since they were last looked at; nil where that is not known.
  func takeSocketCounts() -> (before: SocketCounts, now: SocketCounts)? {
    guard let now = SocketCounts(of: arrival.socket) else { return nil }
    defer { socketCounts = now }
    return socketCounts.map { ($0, now) }
  }

  /// The error that ends a transfer whose packets do not arrive.
  func errorOfSwallowedPackets(_ look: PathMTU.Look, segmentBytesMax: Int) -> TransportError {
    TransportError(.stalled, PathMTU.words(look, host: target.host, segmentBytesMax: segmentBytesMax))
  }

  /// Sends from now on as this congestion control says. Where the kernel refuses, the connection stays as it is.
  func use(_ congestionControl: String) {
    self.congestionControl = congestionControl
    guard arrival.socket >= 0 else { return }
    _ = uploadfs_set_congestion_control(arrival.socket, congestionControl)
  }

  /// The error that ends a stalled transfer; nil while it moves, or is still connecting. `pathBytes` is what all transfers to its
  /// server have moved.
  func stallError(at now: ContinuousClock.Instant, pathBytes: Int) -> TransportError? {
    // The bound may be lower than what counts as a stall.
    if wasPaced {
      wasPaced = isPaced
      stallMeter?.restart()
      return nil
    }
    guard !isStarved, handle.time(CURLINFO_PRETRANSFER_TIME_T) > .zero,
      stallMeter?.isStalled(
        at: now, uploaded: arrival.bytes, downloaded: handle.count(CURLINFO_SIZE_DOWNLOAD_T), pathBytes: pathBytes)
        == true
    else { return nil }
    let limits = request.limits
    if arrival.bytes >= request.body.byteCount, !head.isComplete {
      return TransportError(
        .stalled, "\(target.host) was sent everything and has not answered for \(limits.answer)")
    }
    return TransportError(
      .stalled,
      "the transfer to \(target.host) has stalled (less than \(limits.stallBytesPerSecond) bytes a second for \(limits.stall))"
    )
  }

  /// What the transfer's end means.
  func result(for code: CURLcode) -> Result<HTTPResponse, TransportError> {
    if let violation { return .failure(TransportError(.protocolViolation, "\(target.host) \(violation)")) }
    if isUnwatched {
      return .failure(
        TransportError(.tlsFailed, "the certificate of \(target.host) was not looked at as the settings want it"))
    }
    if request.isSentOnce, beginnings > 1, !hasRefusedQuestion {
      return .failure(
        TransportError(.connectionLost, "\(target.host) closed the connection before it answered"))
    }
    if let streamFailure, !head.isComplete { return .failure(TransportError(.bodyUnavailable, streamFailure)) }
    // What libcurl calls a lack of memory is its bound on a line (100 KiB); CURLE_TOO_LARGE (100) is that of 8.6 and later.
    if code == CURLE_OUT_OF_MEMORY || code.rawValue == 100, !head.isComplete {
      return .failure(
        TransportError(.protocolViolation, "\(target.host) sent a line of header fields that is longer than 100 KiB"))
    }
    guard code == CURLE_OK || isAnswered(despite: code) || hasRefusedQuestion else {
      return .failure(failure(of: code))
    }
    if let error = brokenHead ?? errorOfEarlySuccess { return .failure(error) }
    if code == CURLE_OK { request.sentBytes?.set(UInt64(clamping: request.body.byteCount)) }
    var facts = HTTPConnectionMetrics(
      protocolName: protocolName, isNewConnection: handle.fact(CURLINFO_NUM_CONNECTS) > 0,
      timeToFirstByte: handle.time(CURLINFO_STARTTRANSFER_TIME_T), totalTime: handle.time(CURLINFO_TOTAL_TIME_T))
    if facts.isNewConnection { facts.stages = stages }
    facts.alternatives = AlternativeService.offered(in: head.headers)
    return .success(
      HTTPResponse(
        status: head.status, reasonPhrase: head.reasonPhrase, headers: head.headers, body: responseBody,
        connection: facts))
  }

  /// Of the connection that was made for it. Names and addresses that were raced beside libcurl cost it nothing: what they took is the
  /// race's.
  private var stages: ConnectionStages {
    let named = handle.time(CURLINFO_NAMELOOKUP_TIME_T)
    let connected = handle.time(CURLINFO_CONNECT_TIME_T)
    let secured = max(handle.time(CURLINFO_APPCONNECT_TIME_T), connected)
    let isRaced = race.map { $0.socket >= 0 && $0.socket == arrival.socket } ?? false
    return ConnectionStages(
      names: named + (race?.namesTime ?? .zero),
      connect: connected - named + (isRaced ? race?.roundTrip ?? .zero : .zero), tls: secured - connected,
      answer: handle.time(CURLINFO_STARTTRANSFER_TIME_T) - secured)
  }

  /// Where a kept-alive connection ends before the answer, libcurl sends the request anew by itself. That there is no other connection
  /// then says nothing of what the server has made of the request that it had.
  private func failure(of code: CURLcode) -> TransportError {
    let cause = cause(of: code)
    guard beginnings > 0, cause.kind.isOfAnUnsentRequest else { return cause }
    wasGivenUp = true
    return TransportError(
      .connectionLost, "\(target.host) ended the connection before it answered, and then: \(cause.message)")
  }

  private func cause(of code: CURLcode) -> TransportError {
    if CurlFailure.mayLackDescriptors(code), let lack = DescriptorExhaustion.words() {
      return TransportError(.connectFailed, "no connection to \(target.host) can be made: \(lack)")
    }
    if let refusal = handshake?.refusal { return refusal }
    let proxyStatus = handle.fact(CURLINFO_HTTP_CONNECTCODE)
    if proxyStatus >= 300 { return CurlFailure.ofProxy(status: proxyStatus, host: target.host) }
    if let proxy, endedAtProxy(code, proxy: proxy, proxyStatus: proxyStatus) {
      return CurlFailure.atProxy(proxy, code: code, text: handle.failureText)
    }
    return CurlFailure.error(for: code, text: handle.failureText, host: target.host)
  }

  /// It got no further than to the proxy: nothing else is connected to, and a way through one that speaks HTTP is open once that
  /// has answered.
  private func endedAtProxy(_ code: CURLcode, proxy: String, proxyStatus: Int) -> Bool {
    switch CurlFailure.kind(of: code) {
    case .unknownHost: return code == CURLE_COULDNT_RESOLVE_PROXY
    case .connectFailed: return true
    case .timedOut, .tlsFailed, .certificateRefused, .connectionLost:
      return target.scheme == "https" && !proxy.lowercased().hasPrefix("socks") && proxyStatus == 0
        && handle.fact(CURLINFO_NUM_CONNECTS) > 0 && handle.time(CURLINFO_APPCONNECT_TIME_T) == .zero
    default: return false
    }
  }

  /// A server that refuses a request answers before it has read the body, and then closes: libcurl reports the broken
  /// connection, but what counts is the answer. A refusal counts without its whole body; another answer must be whole.
  private func isAnswered(despite code: CURLcode) -> Bool {
    guard head.isComplete, CurlFailure.kind(of: code) == .connectionLost else { return false }
    return head.status >= 400 || head.contentLength == responseBody.count
  }

  /// The server does not want to be asked before the body. libcurl asks it again and again, because the question is a header field of
  /// the request: what is sent without it is not for the transport to decide.
  private var hasRefusedQuestion: Bool { request.asksBeforeBody && head.isComplete && head.status == 417 }

  /// A head counts once its last line is there: libcurl takes a connection that ends in the middle of it for the end of an answer
  /// without a body.
  private var brokenHead: TransportError? {
    guard !head.isComplete else { return nil }
    return TransportError(
      .connectionLost, "\(target.host) ended the connection in the middle of the header fields of its answer")
  }

  /// No success counts before the last byte of the body was handed to the connection: what a server has not been given, it
  /// cannot have. A refusal may come early.
  private var errorOfEarlySuccess: TransportError? {
    let sent = handle.count(CURLINFO_SIZE_UPLOAD_T)
    let total = request.body.byteCount
    guard sent < total, (200..<300).contains(head.status) else { return nil }
    guard !head.isHTML else {
      let title = PageTitle.beginning(of: responseBody).map { " “\($0)”" } ?? ""
      var error = TransportError(
        .answeredEarly,
        "\(target.host) answered with a web page\(title) (\(head.status)) when it had been sent \(sent) of \(total) bytes: a captive portal, a "
          + "login or maintenance page, or a proxy's; it is tried again, check --to and what lies between")
      error.answerIsHTML = true
      return error
    }
    return TransportError(
      .answeredEarly,
      "\(target.host) reported success (\(head.status)) when it had been sent \(sent) of \(total) bytes; that does not count"
    )
  }

  private var protocolName: String {
    switch handle.fact(CURLINFO_HTTP_VERSION) {
    case Int(CURL_HTTP_VERSION_1_0): "HTTP/1.0"
    case Int(CURL_HTTP_VERSION_1_1): "HTTP/1.1"
    case Int(CURL_HTTP_VERSION_2_0): "HTTP/2"
    case Int(CURL_HTTP_VERSION_3): "HTTP/3"
    default: ""
    }
  }

  /// The body's parts; they live as long as the transfer.
  private var bodyParts: [EasyHandle.BodyPart] {
    var offset = 0
    return request.body.pieces.map { piece in
      switch piece {
      case .pinned(let pinned): return .bytes(pinned.bytes)
      case .streamed(let stream): return .streamed(count: stream.byteCount)
      case .bytes(let bytes):
        defer { offset += bytes.count }
        guard let ownedBytes, !bytes.isEmpty else { return .bytes(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return .bytes(UnsafeRawBufferPointer(rebasing: ownedBytes[offset..<(offset + bytes.count)]))
      }
    }
  }

  /// All bytes that are not pinned, one after another.
  private static func copy(of body: HTTPRequest.Body) -> UnsafeMutableRawBufferPointer? {
    var bytes: [UInt8] = []
    for case .bytes(let part) in body.pieces { bytes += part }
    guard !bytes.isEmpty else { return nil }
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    copy.copyBytes(from: bytes)
    return copy
  }
}

// MARK: - Options

extension CurlTransfer {
  private func configure(_ settings: TransferSettings, _ reuse: ConnectionAges.Reuse) throws(TransportError) {
    try handle.setErrorBuffer()
    try handle.set(CURLOPT_PRIVATE, Unmanaged.passUnretained(self).toOpaque())
    try handle.setConnection(of: request, to: target, with: settings, reusing: reuse, connecting: connectLimit)
    if handshake != nil { try handle.setHandshake(nil) }
    try handle.setVersion(versionChoice, sharesConnection: sharesConnection)
    try configureMethodAndBody()
    try handle.setHeader(of: request, to: target)
    try configureCallbacks()
  }

  private func configureMethodAndBody() throws(TransportError) {
    switch (request.method, request.body) {
    case (.head, _):
      try handle.set(CURLOPT_NOBODY, true)
    case (.get, .none):
      try handle.set(CURLOPT_HTTPGET, true)
    case (.delete, .none), (.options, .none), (.mkcol, .none), (.move, .none), (.propfind, .none), (.proppatch, .none):
      try handle.set(CURLOPT_HTTPGET, true)
      try handle.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
    case (.get, _), (.delete, _), (.options, _), (.post, _), (.put, _), (.patch, _), (.mkcol, _), (.move, _),
      (.propfind, _), (.proppatch, _):
      // CURLOPT_UPLOAD for every method with a body: no Content-Type is invented, and no body is copied or freed.
      try handle.set(CURLOPT_UPLOAD, true)
      try handle.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
      try handle.setBody(
        bodyParts, isSentOnce: request.isSentOnce || stream != nil, source: onStreamNeeded,
        pace: turns == nil ? nil : onPace, context: Unmanaged.passUnretained(self).toOpaque())
    }
  }

  private func configureCallbacks() throws(TransportError) {
    let context = Unmanaged.passUnretained(self).toOpaque()
    try handle.set(CURLOPT_HEADERFUNCTION, onHeaderLine)
    try handle.set(CURLOPT_HEADERDATA, context)
    try handle.set(CURLOPT_WRITEFUNCTION, onResponseBytes)
    try handle.set(CURLOPT_WRITEDATA, context)
    try handle.setBegin(onBegin, context: context)
  }
}

extension HTTPRequest {
  /// About as many bytes as its line and its fields have.
  fileprivate var headBytes: Int {
    url.utf8.count + headers.reduce(64) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
  }
}

extension TransportError.Kind {
  /// Nothing of a request has gone out when it fails so, unless it had been begun before.
  fileprivate var isOfAnUnsentRequest: Bool {
    switch self {
    case .unknownHost, .connectFailed, .proxyFailed, .tlsFailed, .certificateRefused, .pinMismatch,
      .transparencyRefused, .certificateRevoked, .stapleMissing:
      true
    default: false
    }
  }
}

// MARK: - Callbacks

extension CurlTransfer {
  /// False when the request must not be sent again: libcurl does that by itself when a kept-alive connection is closed before
  /// the answer, whether the server has read the request or not.
  fileprivate func begins(localPort: Int32, peerPort: Int32) -> Bool {
    // Every byte of a request waits for this.
    if let handshake, handle.fact(CURLINFO_NUM_CONNECTS) > 0, handshake.isOwed {
      isUnwatched = true
      return false
    }
    beginnings += 1
    begunAt = .now
    turns?.spend(request.headBytes)
    arrival.begin(localPort: localPort, peerPort: peerPort)
    socketCounts = SocketCounts(of: arrival.socket)
    if let congestionControl { use(congestionControl) }
    return beginnings == 1 || !request.isSentOnce && !hasRefusedQuestion
  }

  fileprivate func receivedHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
    guard head.consume(line) else {
      violation = "sent more than \(ResponseHead.bytesMax >> 10) KiB of header fields"
      return false
    }
    return true
  }

  fileprivate func receivedBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count <= UploadConstants.responseBytesMax - responseBody.count else {
      violation = "sent a response of more than \(UploadConstants.responseBytesMax >> 20) MiB"
      return false
    }
    responseBody.append(contentsOf: bytes)
    return true
  }

  /// How many of so many bytes may go to the network now; see ``RateBucket``.
  fileprivate func granted(_ count: Int) -> Int {
    guard let turns else { return count }
    guard count > 0 else {
      turns.spend(count)
      return 0
    }
    let granted = turns.take(upTo: count, for: id)
    if granted == 0 { (isPaced, wasPaced) = (true, true) }
    return granted
  }

  /// What of the body has been handed to the network.
  var sentBytes: UInt64 { UInt64(clamping: handle.count(CURLINFO_SIZE_UPLOAD_T)) }

  /// The bytes that follow, which are kept until the next ones are asked for; nil when there are none now, or, with
  /// ``streamFailure`` set, at all.
  fileprivate func nextStreamedBytes() -> UnsafeRawBufferPointer? {
    // First, so that its memory can be used again.
    streamedBytes = nil
    let wasStarved = isStarved
    isStarved = false
    switch stream?.next() {
    case .bytes(let bytes)?:
      streamedBytes = bytes
      // What was measured before says nothing about the network any more.
      if wasStarved { stallMeter = StallMeter(request.limits, bodyByteCount: request.body.byteCount) }
      return bytes.bytes
    case .later?:
      isStarved = true
      return nil
    case .failed(let reason)?: streamFailure = reason
    case nil: streamFailure = "There is nothing to send."
    }
    return nil
  }

  fileprivate var hasStreamFailed: Bool { streamFailure != nil }

  fileprivate static func of(_ context: UnsafeMutableRawPointer) -> CurlTransfer {
    Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
  }
}

// Global functions: closures for C that are formed in an isolated context would carry that isolation to the curl
// thread. Returning fewer bytes than were offered makes libcurl end the transfer with CURLE_WRITE_ERROR.

private func onBegin(
  _ context: UnsafeMutableRawPointer?, _ theirAddress: UnsafeMutablePointer<CChar>?,
  _ ourAddress: UnsafeMutablePointer<CChar>?, _ theirPort: Int32, _ ourPort: Int32
) -> Int32 {
  guard let context, CurlTransfer.of(context).begins(localPort: ourPort, peerPort: theirPort) else {
    return CURL_PREREQFUNC_ABORT
  }
  return CURL_PREREQFUNC_OK
}

private func onHeaderLine(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let context else { return 0 }
  let total = size &* count
  return CurlTransfer.of(context).receivedHeaderLine(UnsafeRawBufferPointer(start: bytes, count: total)) ? total : 0
}

private func onResponseBytes(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let context else { return 0 }
  let total = size &* count
  return CurlTransfer.of(context).receivedBody(UnsafeRawBufferPointer(start: bytes, count: total)) ? total : 0
}

private func onPace(_ context: UnsafeMutableRawPointer?, _ count: Int) -> Int {
  guard let context else { return 0 }
  return CurlTransfer.of(context).granted(count)
}

private func onStreamNeeded(
  _ context: UnsafeMutableRawPointer?, _ bytes: UnsafeMutablePointer<UnsafeRawPointer?>?,
  _ count: UnsafeMutablePointer<Int>?
) -> uploadfs_curl_supply {
  guard let context, let bytes, let count else { return UPLOADFS_CURL_FAILED }
  let transfer = CurlTransfer.of(context)
  guard let next = transfer.nextStreamedBytes() else {
    return transfer.hasStreamFailed ? UPLOADFS_CURL_FAILED : UPLOADFS_CURL_LATER
  }
  bytes.pointee = next.baseAddress
  count.pointee = next.count
  return UPLOADFS_CURL_BYTES
}
