import CCurl
import TransferModel

/// One reusable libcurl easy handle with the memory that libcurl writes to while a transfer runs. Belongs to the curl
/// thread.
final class EasyHandle {
  let pointer: UnsafeMutableRawPointer
  /// Where libcurl reads a request body from; fixed in memory because libcurl keeps its address.
  let body: UnsafeMutablePointer<uploadfs_curl_body>
  private let errorText: UnsafeMutablePointer<CChar>
  /// The pieces of the present transfer's body.
  private var pieces: UnsafeMutableBufferPointer<uploadfs_curl_piece>?
  /// The header list of the present transfer; libcurl does not copy it.
  private var headerList: UnsafeMutablePointer<curl_slist>?
  /// The addresses of the present transfer's server; libcurl does not copy them.
  private var addressList: UnsafeMutablePointer<curl_slist>?

  /// Where its connections find and leave TLS sessions; libcurl keeps its address.
  private var sessions: TLSSessions?

  /// Nil when memory is short.
  init?() {
    guard let pointer = curl_easy_init() else { return nil }
    self.pointer = pointer
    body = .allocate(capacity: 1)
    body.initialize(to: uploadfs_curl_body())
    errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
    errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
  }

  deinit {
    // Before the memory that it points to.
    curl_easy_cleanup(pointer)
    curl_slist_free_all(headerList)
    curl_slist_free_all(addressList)
    body.deallocate()
    pieces?.deallocate()
    errorText.deallocate()
  }

  /// Forgets the last transfer; connections and resolved names live in the multi handle, TLS sessions in what it shares, and
  /// stay.
  func reset() {
    curl_easy_reset(pointer)
    curl_slist_free_all(headerList)
    headerList = nil
    curl_slist_free_all(addressList)
    addressList = nil
    body.pointee = uploadfs_curl_body()
    pieces?.deallocate()
    pieces = nil
    errorText[0] = 0
  }

  /// What libcurl said about the failure of the present transfer; may be empty.
  var failureText: String { String(cString: errorText) }

  /// Sets an option of the kind `long`.
  func set(_ option: CURLoption, _ value: Int) throws(TransportError) {
    try check(uploadfs_curl_set_long(pointer, option, value), option)
  }

  /// Sets an option of the kind `long` to 1 or 0.
  func set(_ option: CURLoption, _ value: Bool) throws(TransportError) {
    try set(option, value ? 1 : 0)
  }

  /// Sets an option of the kind `long` to a duration in whole milliseconds, rounded up: 0 would mean "no limit".
  func set(_ option: CURLoption, milliseconds duration: Duration) throws(TransportError) {
    try set(option, Self.whole(duration, unitAttoseconds: 1_000_000_000_000_000, perSecond: 1000))
  }

  /// Sets an option of the kind `long` to a duration in whole seconds, rounded up.
  func set(_ option: CURLoption, seconds duration: Duration) throws(TransportError) {
    try set(option, Self.whole(duration, unitAttoseconds: 1_000_000_000_000_000_000, perSecond: 1))
  }

  /// Sets an option of the kind `curl_off_t`.
  func set(_ option: CURLoption, size: Int) throws(TransportError) {
    try check(uploadfs_curl_set_size(pointer, option, curl_off_t(size)), option)
  }

  /// Sets an option to a text, which libcurl copies.
  func set(_ option: CURLoption, _ value: String) throws(TransportError) {
    try check(value.withCString { uploadfs_curl_set_string(pointer, option, $0) }, option)
  }

  /// Takes a text option's default away.
  func unset(_ option: CURLoption) throws(TransportError) {
    try check(uploadfs_curl_set_string(pointer, option, nil), option)
  }

  /// Sets an option to a pointer that must outlive the transfer.
  func set(_ option: CURLoption, _ value: UnsafeMutableRawPointer) throws(TransportError) {
    try check(uploadfs_curl_set_pointer(pointer, option, value), option)
  }

  /// Sets a callback that receives bytes.
  func set(_ option: CURLoption, _ sink: @escaping uploadfs_curl_sink) throws(TransportError) {
    try check(uploadfs_curl_set_sink(pointer, option, sink), option)
  }

  /// Lets libcurl write its error text into this handle's buffer.
  func setErrorBuffer() throws(TransportError) {
    try check(uploadfs_curl_set_pointer(pointer, CURLOPT_ERRORBUFFER, errorText), CURLOPT_ERRORBUFFER)
  }

  /// Gives a connection up when the peer's kernel acknowledges nothing for this long; for connections made from now on.
  func setAcknowledgementTimeout(_ timeout: Duration) throws(TransportError) {
    let milliseconds = Self.whole(timeout, unitAttoseconds: 1_000_000_000_000_000, perSecond: 1000)
    try check(uploadfs_curl_set_acknowledgement_timeout(pointer, milliseconds), CURLOPT_SOCKOPTFUNCTION)
  }

  /// Takes part in these TLS sessions, and in no others any more.
  func share(_ sessions: TLSSessions) throws(TransportError) {
    guard self.sessions !== sessions else { return }
    try set(CURLOPT_SHARE, sessions.pointer)
    // After libcurl has let go of the one before.
    self.sessions = sessions
  }

  /// Installs a callback for the time right before the request is sent; `CURL_PREREQFUNC_ABORT` ends the transfer.
  func setBegin(_ begin: @escaping curl_prereq_callback, context: UnsafeMutableRawPointer) throws(TransportError) {
    try check(uploadfs_curl_set_begin(pointer, begin, context), CURLOPT_PREREQFUNCTION)
  }

  /// Installs a callback for the time at which a connection's SSL_CTX has been made.
  func setContextFunction(
    _ function: @escaping curl_ssl_ctx_callback, _ context: UnsafeMutableRawPointer?
  ) throws(TransportError) {
    try check(uploadfs_curl_set_context_function(pointer, function, context), CURLOPT_SSL_CTX_FUNCTION)
  }

  /// A part of a request's body.
  enum BodyPart {
    /// Bytes that outlive the transfer.
    case bytes(UnsafeRawBufferPointer)
    /// So many bytes that the source gives.
    case streamed(count: Int)

    var count: Int {
      switch self {
      case .bytes(let bytes): bytes.count
      case .streamed(let count): count
      }
    }
  }

  /// Sends these parts, one after another, as the request's body. `source` is for what is streamed, `pace` for what is bounded; both get
  /// `context`.
  func setBody(
    _ parts: [BodyPart], isSentOnce: Bool, source: @escaping uploadfs_curl_source, pace: uploadfs_curl_pace?,
    context: UnsafeMutableRawPointer
  ) throws(TransportError) {
    let pieces = UnsafeMutableBufferPointer<uploadfs_curl_piece>.allocate(capacity: parts.count)
    _ = pieces.initialize(
      from: parts.map { part in
        switch part {
        case .bytes(let bytes): uploadfs_curl_piece(bytes: bytes.baseAddress, count: bytes.count)
        case .streamed(let count): uploadfs_curl_piece(bytes: nil, count: count)
        }
      })
    self.pieces?.deallocate()
    self.pieces = pieces
    body.pointee = uploadfs_curl_body(
      pieces: pieces.baseAddress, piece_count: parts.count, piece: 0, offset: 0, source: source, pace: pace,
      context: context, supply: nil, supply_count: 0, is_sent_once: isSentOnce ? 1 : 0)
    try check(uploadfs_curl_set_body(pointer, body), CURLOPT_READFUNCTION)
    try set(CURLOPT_INFILESIZE_LARGE, size: parts.reduce(0) { $0 + $1.count })
  }

  /// All of the body was given to libcurl.
  var hasGivenBody: Bool { body.pointee.piece_count > 0 && body.pointee.piece >= body.pointee.piece_count }

  /// What libcurl has taken of the body, from its last beginning on: more than that is not in any socket.
  var givenBodyBytes: Int {
    let body = body.pointee
    return (pieces?.prefix(body.piece).reduce(0) { $0 + $1.count } ?? 0) + body.offset
  }

  /// Goes on with a transfer that paused because there was nothing to send.
  func resume() { curl_easy_pause(pointer, CURLPAUSE_CONT) }

  /// Sets the request's header lines, each without its line break.
  func setHeaderLines(_ lines: [String]) throws(TransportError) {
    for line in lines {
      guard let list = curl_slist_append(headerList, line) else {
        throw TransportError(.other, "curl_slist_append failed: out of memory")
      }
      headerList = list
    }
    try check(uploadfs_curl_set_list(pointer, CURLOPT_HTTPHEADER, headerList), CURLOPT_HTTPHEADER)
  }

  /// Connects to these addresses of the server, in this order, and takes a connection that was made to one of them. Without any the
  /// library asks for the name.
  func setAddresses(_ addresses: [SocketAddress], of target: RequestTarget) throws(TransportError) {
    guard let server = target.namedServer, !addresses.isEmpty else { return }
    let texts = addresses.map { $0.family == .ipv6 ? "[\($0.hostText)]" : $0.hostText }
    // +: no longer than other names, so that a handle that knows no addresses asks for them.
    addressList = curl_slist_append(nil, "+\(server.host):\(server.port):\(texts.joined(separator: ","))")
    try check(uploadfs_curl_set_list(pointer, CURLOPT_RESOLVE, addressList), CURLOPT_RESOLVE)
    try check(uploadfs_curl_take_offers(pointer), CURLOPT_OPENSOCKETFUNCTION)
    // From 8.10 on libcurl begins with IPv6 wherever that stands in the list, and waits 200 ms before it tries an address of IPv4.
    guard addresses.first?.family == .ipv4, addresses.contains(where: { $0.family == .ipv6 }) else { return }
    try set(CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS, 1)
  }

  /// A fact of the kind `long`; 0 when libcurl does not know it.
  func fact(_ info: CURLINFO) -> Int {
    var value = 0
    return uploadfs_curl_get_long(pointer, info, &value) == CURLE_OK ? value : 0
  }

  /// A number of bytes; 0 when libcurl does not know it.
  func count(_ info: CURLINFO) -> Int {
    var value: curl_off_t = 0
    return uploadfs_curl_get_size(pointer, info, &value) == CURLE_OK ? Int(value) : 0
  }

  /// A fact in microseconds; zero when libcurl does not know it.
  func time(_ info: CURLINFO) -> Duration {
    var value: curl_off_t = 0
    return uploadfs_curl_get_size(pointer, info, &value) == CURLE_OK ? .microseconds(value) : .zero
  }

  private func check(_ code: CURLcode, _ option: CURLoption) throws(TransportError) {
    guard code != CURLE_OK else { return }
    let name = curl_easy_option_by_id(option).flatMap { $0.pointee.name }.map { String(cString: $0) } ?? "?"
    let reason = String(cString: curl_easy_strerror(code))
    throw TransportError(.other, "libcurl refuses the option CURLOPT_\(name): \(reason)")
  }

  /// libcurl takes times as `long` and refuses those beyond an `int`'s range.
  private static func whole(_ duration: Duration, unitAttoseconds: Int64, perSecond: Int64) -> Int {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    guard seconds < Int64(Int32.max) / perSecond else { return Int(Int32.max) }
    let roundedUp = (attoseconds + (unitAttoseconds - 1)) / unitAttoseconds
    return Int(seconds * perSecond + roundedUp)
  }
}
