import CCurl
import Glibc
import Testing

@testable import CurlTransport

@Suite("Names that are asked for before there is a request")
struct NameCacheTests {
  private let start = ContinuousClock.now
  private let server = NamedServer(host: "upload.example.org", port: 443)

  private func address() throws -> SocketAddress {
    var system = sockaddr_in()
    system.sin_family = sa_family_t(AF_INET)
    return try #require(
      withUnsafePointer(to: &system) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          SocketAddress($0, byteCount: MemoryLayout<sockaddr_in>.size)
        }
      })
  }

  /// Answers a question in both families; IPv4 has an address.
  private func answer(_ question: NameCache.Question, _ cache: inout NameCache, finds: Bool = true) throws -> [Bool] {
    try question.families.map { family in
      let addresses = family == .ipv4 && finds ? [try address()] : []
      let name = ResolvedName(
        server: question.server, family: family, addresses: addresses, question: question.number)
      return cache.answered(name, at: start)
    }
  }

  @Test("A race that begins within a minute has the answers, and asks nothing")
  func warmed_isKnown() throws {
    var cache = NameCache()
    let asked = cache.warm(server, at: start)
    let question = try #require(asked)
    let again = cache.warm(server, at: start)
    let isWanted = try answer(question, &cache)
    let fresh = cache.warm(server, at: start + .seconds(59))
    let race = cache.take(server, at: start + .seconds(59))
    #expect(question.families == SocketAddress.Family.allCases && isWanted == [true, true])
    #expect(again == nil && fresh == nil && race.question == nil)
    #expect(race.known.flatMap(\.addresses) == [try address()])
  }

  @Test("After a minute it asks anew, and so does a race without a question before")
  func old_isAskedAgain() throws {
    var cache = NameCache()
    let unasked = cache.take(server, at: start)
    _ = try answer(try #require(unasked.question), &cache)
    let old = cache.take(server, at: start + .seconds(60))
    let warmed = cache.warm(server, at: start + .seconds(60))
    #expect(unasked.known.isEmpty && old.known.isEmpty && old.question != nil)
    #expect(warmed == nil, "the race's question is under way")
  }

  @Test("A race that begins while the resolver is asked takes the answers that come")
  func beingAsked_isNotAskedTwice() throws {
    var cache = NameCache()
    let asked = cache.warm(server, at: start)
    let question = try #require(asked)
    let race = cache.take(server, at: start)
    #expect(race.known.isEmpty && race.question == nil)
    let isWanted = try answer(question, &cache)
    #expect(isWanted == [true, true])
  }

  @Test("No address is no answer: the resolver is asked again by the first request")
  func noAddress_isAskedAgain() throws {
    var cache = NameCache()
    let asked = cache.warm(server, at: start)
    let question = try #require(asked)
    _ = try answer(question, &cache, finds: false)
    let race = cache.take(server, at: start)
    #expect(race.question != nil)
  }

  @Test("After a failure, and in another network, old answers do not count, those on their way neither")
  func outdated_isAskedAgain() throws {
    for forget in [{ $0.failed(self.server) }, { $0.networkChanged() }] as [(inout NameCache) -> Void] {
      var cache = NameCache()
      let asked = cache.warm(server, at: start)
      let question = try #require(asked)
      forget(&cache)
      let race = cache.take(server, at: start)
      let isWanted = try answer(question, &cache)
      #expect(race.question != nil && isWanted == [false, false])
      _ = try answer(try #require(race.question), &cache)
      forget(&cache)
      let later = cache.take(server, at: start)
      #expect(later.question != nil)
    }
  }
}
