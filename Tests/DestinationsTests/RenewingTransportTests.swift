import Promises
import Synchronization
import Testing
import TransferModel

@testable import Destinations

/// Answers 401 to every token but one, when the test says so.
private final class TokenServer: HTTPTransport {
  private let state = Mutex<(accepted: String, held: [PendingHTTPRequest], seen: [String])>(("", [], []))

  func start(_ requests: [PendingHTTPRequest]) {
    state.withLock { state in
      state.held += requests
      state.seen += requests.map { $0.request.header("Authorization") ?? "" }
    }
  }

  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}

  func accept(_ token: String) { state.withLock { $0.accepted = "Bearer \(token)" } }

  /// What was sent so far: the fields that the requests had.
  var seen: [String] { state.withLock { $0.seen } }

  func answerAll() {
    let (held, accepted) = state.withLock { state in
      defer { state.held = [] }
      return (state.held, state.accepted)
    }
    for request in held {
      request.onCompletion(
        .success(HTTPResponse(status: request.request.header("Authorization") == accepted ? 200 : 401)))
    }
  }
}

/// Hands on what it is given.
private final class ForbiddingServer: HTTPTransport {
  private let take: @Sendable (PendingHTTPRequest) -> Void

  init(_ take: @escaping @Sendable (PendingHTTPRequest) -> Void) { self.take = take }

  func start(_ requests: [PendingHTTPRequest]) { for request in requests { take(request) } }

  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}
}

@Suite struct RenewingTransportTests {
  private let server = TokenServer()
  private final class Box: Sendable {
    let renewals = Mutex(0)
    let seconds = Mutex<Int64>(0)
    let answers = Mutex<[UInt64: String]>([:])
  }
  private let box = Box()

  private func transport() -> RenewingTransport {
    let box = box
    return RenewingTransport(
      server, credential: .bearer("one"), seconds: { box.seconds.withLock { $0 } },
      renew: { _ in box.renewals.withLock { $0 += 1 } })
  }

  private func send(_ ids: ClosedRange<UInt64>, over transport: RenewingTransport, _ method: HTTPRequest.Method = .put)
  {
    let box = box
    transport.start(
      ids.map { id in
        let headers = [HTTPHeader("Authorization", "Bearer former")]
        return PendingHTTPRequest(
          id: HTTPRequestID(id), request: HTTPRequest(method, "https://x", headers: headers)
        ) { result in
          box.answers.withLock {
            switch result {
            case .success(let response): $0[id] = "\(response.status)"
            case .failure(let error): $0[id] = "\(error.kind)"
            }
          }
        }
      })
  }

  private func answer(_ id: UInt64) -> String? { box.answers.withLock { $0[id] } }
  private var renewalCount: Int { box.renewals.withLock { $0 } }

  /// A transport whose first token was good until now.
  private func used() -> RenewingTransport {
    let transport = transport()
    server.accept("one")
    send(100...100, over: transport)
    server.answerAll()
    server.accept("two")
    return transport
  }

  @Test(.promises("DE91")) func refusedRequests_waitForOneRenewal_andSucceed() {
    let transport = used()
    send(1...12, over: transport)
    server.answerAll()
    #expect(renewalCount == 1 && answer(1) == nil)
    // One that comes meanwhile waits with them.
    send(13...13, over: transport)
    #expect(server.seen.count == 13)
    transport.renewed(.success(.bearer("two")))
    server.answerAll()
    #expect((1...13).allSatisfy { answer($0) == "200" })
    #expect(renewalCount == 1 && server.seen.suffix(13).allSatisfy { $0 == "Bearer two" })
  }

  /// Regression: a token file that was put right helped only where the server had said 401.
  @Test(.promises("DE90")) func aFileIsLookedAtAlsoWhenAccessIsForbidden() {
    for (rest, renewals) in [(0, 1), (60, 0)] as [(Int64, Int)] {
      let box = Box()
      let held = Mutex<[PendingHTTPRequest]>([])
      let server = ForbiddingServer { request in held.withLock { $0.append(request) } }
      let transport = RenewingTransport(
        server, credential: .bearer("one"), restSeconds: rest, seconds: { 0 },
        renew: { _ in box.renewals.withLock { $0 += 1 } })
      let answers = Mutex<[Int]>([])
      transport.start([
        PendingHTTPRequest(
          id: HTTPRequestID(1),
          request: HTTPRequest(.put, "https://x", headers: [HTTPHeader("Authorization", "Bearer one")])
        ) { result in if case .success(let response) = result { answers.withLock { $0.append(response.status) } } }
      ])
      held.withLock { $0 }.last?.onCompletion(.success(HTTPResponse(status: 403)))
      #expect(box.renewals.withLock { $0 } == renewals)
      guard renewals > 0 else {
        #expect(answers.withLock { $0 } == [403])
        continue
      }
      transport.renewed(.success(.bearer("two")))
      #expect(held.withLock { $0 }.last?.request.header("Authorization") == "Bearer two")
      held.withLock { $0 }.last?.onCompletion(.success(HTTPResponse(status: 201)))
      #expect(answers.withLock { $0 } == [201])
    }
  }

  /// Regression: it was sent with the right token and the MACs of the wrong one.
  @Test(.promises("DE136")) func whatWasMadeWithACredentialThatWasNeverAccepted_isMadeAnew() {
    let signer = ChunkSigner(.bearer("former"))
    let box = box
    let transport = RenewingTransport(
      server, credential: .bearer("former"), restSeconds: 0, seconds: { 0 }, signer: signer,
      renew: { _ in box.renewals.withLock { $0 += 1 } })
    let before = signer.present
    server.accept("two")
    send(1...2, over: transport)
    server.answerAll()
    transport.renewed(.success(.bearer("two")))
    // Made before, and sent only now.
    send(3...3, over: transport)
    #expect((1...3).allSatisfy { answer($0) == "connectionLost" }, "\(box.answers.withLock { $0 })")
    #expect(signer.present.authorization == "Bearer two" && signer.present.masterKey != before.masterKey)
    #expect(server.seen.count == 2)
  }

  @Test(.promises("DE89")) func tagsStayThoseOfTheCredentialThatWasAcceptedFirst() {
    let signer = ChunkSigner(.bearer("former"))
    let transport = RenewingTransport(
      server, credential: .bearer("former"), restSeconds: 0, seconds: { 0 }, signer: signer, renew: { _ in })
    server.accept("former")
    send(1...1, over: transport)
    server.answerAll()
    server.accept("two")
    send(2...2, over: transport)
    server.answerAll()
    transport.renewed(.success(.bearer("two")))
    server.answerAll()
    #expect(answer(2) == "200" && signer.present.authorization == "Bearer former")
  }

  /// Regression: a wrong password cost the whole file twice.
  @Test func theSameCredentialAgain_isNotTriedASecondTime() {
    let transport = transport()
    server.accept("one")
    send(1...1, over: transport)
    server.answerAll()
    server.accept("two")
    send(2...3, over: transport)
    server.answerAll()
    transport.renewed(.success(.bearer("one")))
    #expect(answer(2) == "401" && answer(3) == "401" && server.seen.count == 3)
    send(4...4, over: transport)
    #expect(server.seen.count == 4)
  }

  @Test(.promises("DE92")) func aFreshTokenThatIsRefused_isAFailure() {
    let transport = used()
    send(1...1, over: transport)
    server.answerAll()
    transport.renewed(.success(.bearer("bad")))
    server.answerAll()
    #expect(answer(1) == "401" && renewalCount == 1)
    // It is not asked for again and again, whatever request comes.
    send(2...2, over: transport)
    server.answerAll()
    #expect(answer(2) == "401" && renewalCount == 1)
    box.seconds.withLock { $0 = 61 }
    send(3...3, over: transport)
    server.answerAll()
    #expect(renewalCount == 2)
  }

  @Test func aConnectionThatOnlyWasWarmed_acceptsNothing() {
    let transport = transport()
    server.accept("one")
    send(1...1, over: transport, .head)
    server.answerAll()
    server.accept("two")
    send(2...2, over: transport)
    server.answerAll()
    #expect(answer(2) == "401" && renewalCount == 0)
  }

  @Test(.promises("DE93a")) func withoutAToken_requestsFailForNow() {
    let transport = used()
    send(1...2, over: transport)
    server.answerAll()
    transport.renewed(.failure(.init("the token command ended with 1")))
    #expect(answer(1) == "connectFailed" && answer(2) == "connectFailed")
    send(3...3, over: transport)
    server.answerAll()
    #expect(renewalCount == 2)
    transport.renewed(.success(.bearer("two")))
    server.answerAll()
    #expect(answer(3) == "200")
  }

  /// It goes to another host, which must not see the credential, and whose refusals say nothing of it.
  @Test func aRequestWithoutCredential_isLeftAsItIs() {
    let transport = used()
    let box = box
    transport.start(HTTPRequest(.put, "https://elsewhere"), id: HTTPRequestID(7)) { result in
      if case .success(let response) = result { box.answers.withLock { $0[7] = "\(response.status)" } }
    }
    server.answerAll()
    #expect(answer(7) == "401" && renewalCount == 0 && server.seen.last == "")
  }

  @Test func whereALookCostsNothing_itIsTakenAtOnce() {
    let box = box
    let transport = RenewingTransport(
      server, credential: .basic(user: "camera", password: "old"), restSeconds: 0, seconds: { 0 },
      renew: { _ in box.renewals.withLock { $0 += 1 } })
    server.accept("one")
    send(1...1, over: transport)
    server.answerAll()
    #expect(renewalCount == 1 && server.seen == ["Basic Y2FtZXJhOm9sZA=="])
    transport.renewed(.success(.bearer("one")))
    server.answerAll()
    #expect(answer(1) == "200")
  }

  @Test func aWaitingRequest_canBeCancelled() {
    let transport = used()
    send(1...2, over: transport)
    server.answerAll()
    transport.cancel(HTTPRequestID(1))
    #expect(answer(1) == "cancelled")
    transport.renewed(.success(.bearer("two")))
    server.answerAll()
    #expect(answer(1) == "cancelled" && answer(2) == "200")
  }

  @Test(.promises("DE91")) func aLateRefusalOfAnOldToken_isSentAgainAtOnce() {
    let transport = used()
    send(1...1, over: transport)
    server.answerAll()
    transport.renewed(.success(.bearer("two")))
    // Both are under way with the new token; one is refused once more.
    server.accept("three")
    server.answerAll()
    #expect(answer(1) == "401" && renewalCount == 1)
  }
}
