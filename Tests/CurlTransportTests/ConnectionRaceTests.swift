import Glibc
import Testing

@testable import CurlTransport

/// Happy Eyeballs (RFC 8305), without a clock and a network.
@Suite("A race between the addresses of a server")
struct ConnectionRaceTests {
  private let start = ContinuousClock.now

  private func ipv4(_ number: UInt8) throws -> SocketAddress {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0xc000_0200 + UInt32(number)).bigEndian
    return try make(&address)
  }

  private func ipv6(_ number: UInt8) throws -> SocketAddress {
    var address = sockaddr_in6()
    address.sin6_family = sa_family_t(AF_INET6)
    withUnsafeMutableBytes(of: &address.sin6_addr) {
      $0[0] = 0x20
      $0[1] = 0x01
      $0[15] = number
    }
    return try make(&address)
  }

  private func make<System>(_ system: inout System) throws -> SocketAddress {
    try #require(
      withUnsafePointer(to: &system) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          SocketAddress($0, byteCount: MemoryLayout<System>.size)
        }
      })
  }

  private func race(_ memory: AddressMemory = AddressMemory()) -> ConnectionRace { ConnectionRace(memory) }

  @Test("Addresses of IPv6 are connected to as soon as they are known")
  func ipv6First_doesNotWait() throws {
    var race = race()
    let actions = race.resolved(.ipv6, [try ipv6(1)], at: start)
    #expect(actions == [.connect(try ipv6(1))])
  }

  @Test("Those of IPv4 wait for them for 50 ms, and no longer")
  func ipv4First_waitsForTheOthers() throws {
    var race = race()
    let first = race.resolved(.ipv4, [try ipv4(1)], at: start)
    #expect(first.isEmpty && race.nextDeadline == start + .milliseconds(50))
    let early = race.woke(at: start + .milliseconds(49))
    let due = race.woke(at: start + .milliseconds(50))
    #expect(early.isEmpty)
    #expect(due == [.connect(try ipv4(1))])
  }

  @Test("A name without addresses of IPv6 is no reason to wait")
  func noIPv6_isNotWaitedFor() throws {
    var race = race()
    let none = race.resolved(.ipv6, [], at: start)
    let actions = race.resolved(.ipv4, [try ipv4(1), try ipv4(2)], at: start)
    #expect(none.isEmpty)
    #expect(actions == [.connect(try ipv4(1))])
  }

  @Test("Where there is one address, there is no race")
  func oneAddress_isLeftToTheLibrary() throws {
    var race = race()
    _ = race.resolved(.ipv6, [], at: start)
    let end = race.resolved(.ipv4, [try ipv4(1)], at: start)
    #expect(end == [.end(winner: nil, [try ipv4(1)])])
  }

  @Test("Attempts follow every 250 ms, in turns, and the first connection wins")
  func attempts_alternate() throws {
    var race = race()
    _ = race.resolved(.ipv4, [try ipv4(1), try ipv4(2)], at: start)
    var tried = race.resolved(.ipv6, [try ipv6(1), try ipv6(2)], at: start)
    for step in 1...4 {
      let before = race.woke(at: start + .milliseconds(250 * step - 1))
      #expect(before.isEmpty)
      tried += race.woke(at: start + .milliseconds(250 * step))
    }
    #expect(
      tried == [
        .connect(try ipv6(1)), .connect(try ipv4(1)), .connect(try ipv6(2)), .connect(try ipv4(2)),
      ])
    let end = race.connected(try ipv4(1))
    #expect(end == [.end(winner: try ipv4(1), [try ipv4(1), try ipv6(1), try ipv6(2), try ipv4(2)])])
    #expect(race.isOver && race.nextDeadline == nil)
  }

  @Test("A failure is followed by the next attempt at once")
  func failure_doesNotWait() throws {
    var race = race()
    _ = race.resolved(.ipv6, [try ipv6(1)], at: start)
    _ = race.resolved(.ipv4, [try ipv4(1)], at: start)
    let next = race.failed(try ipv6(1), at: start + .milliseconds(3))
    #expect(next == [.connect(try ipv4(1))])
    let end = race.connected(try ipv4(1))
    #expect(end == [.end(winner: try ipv4(1), [try ipv4(1), try ipv6(1)])])
  }

  @Test("It ends without a winner once all have failed and both families have answered")
  func allFailed_endsTheRace() throws {
    var race = race()
    _ = race.resolved(.ipv6, [try ipv6(1)], at: start)
    let early = race.failed(try ipv6(1), at: start)
    #expect(early.isEmpty, "addresses of IPv4 may still come")
    _ = race.resolved(.ipv4, [try ipv4(1)], at: start + .seconds(1))
    let end = race.failed(try ipv4(1), at: start + .seconds(2))
    #expect(end == [.end(winner: nil, [try ipv6(1), try ipv4(1)])])
    let after = race.connected(try ipv4(1))
    #expect(after.isEmpty)
  }

  @Test("A name without any address ends it as well")
  func noAddress_endsTheRace() {
    var race = race()
    _ = race.resolved(.ipv4, [], at: start)
    let end = race.resolved(.ipv6, [], at: start)
    #expect(end == [.end(winner: nil, [])])
  }

  @Test("What has worked comes first, the fastest before others, and what has failed comes last")
  func memory_sortsAddresses() throws {
    var memory = AddressMemory()
    memory.failed(try ipv6(1))
    memory.worked(try ipv4(2), after: .milliseconds(30))
    memory.worked(try ipv4(1), after: .milliseconds(80))
    var race = race(memory)
    _ = race.resolved(.ipv4, [try ipv4(1), try ipv4(2), try ipv4(3)], at: start)
    let actions = race.resolved(.ipv6, [try ipv6(1)], at: start)
    #expect(actions == [.connect(try ipv4(2))])
    let end = race.giveUp()
    #expect(end == [.end(winner: nil, [try ipv4(2), try ipv4(1), try ipv4(3), try ipv6(1)])])
    memory.forget()
    #expect(memory.sorted([try ipv6(1), try ipv4(2)]) == [try ipv6(1), try ipv4(2)])
  }

  @Test("An address that needs a zone is left to the library, which takes none in a list")
  func addressOfOneLink_isLeftOut() {
    var system = sockaddr_in6()
    system.sin6_family = sa_family_t(AF_INET6)
    withUnsafeMutableBytes(of: &system.sin6_addr) {
      $0[0] = 0xfe
      $0[1] = 0x80
      $0[15] = 1
    }
    system.sin6_scope_id = 1
    let address = withUnsafePointer(to: &system) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        SocketAddress($0, byteCount: MemoryLayout<sockaddr_in6>.size)
      }
    }
    #expect(address == nil)
  }

  @Test("Addresses are shown as they are written")
  func hostText() throws {
    let texts = [try ipv4(7).hostText, try ipv6(7).hostText]
    #expect(texts == ["192.0.2.7", "2001::7"])
  }
}

@Suite("The addresses of servers")
struct AddressBookTests {
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

  private func outcome() throws -> RaceOutcome {
    RaceOutcome(server: server, addresses: [try address()], winner: try address(), roundTrip: .milliseconds(5))
  }

  @Test("Requests wait for one race, and go where it ended")
  func firstRequest_beginsARace() throws {
    var book = AddressBook()
    let first = book.look(up: server, at: start)
    let second = book.look(up: server, at: start)
    #expect(first == (.wait, true) && second == (.wait, false))
    book.found(try outcome(), at: start)
    let third = book.look(up: server, at: start + .seconds(59))
    let addresses = [try address()]
    #expect(third == (.go(addresses), false))
  }

  @Test("After a minute names are asked for beside the requests, which do not wait")
  func oldAddresses_areAskedForAgain() throws {
    var book = AddressBook()
    _ = book.look(up: server, at: start)
    book.found(try outcome(), at: start)
    let old = book.look(up: server, at: start + .seconds(60))
    let again = book.look(up: server, at: start + .seconds(60))
    let addresses = [try address()]
    #expect(old == (.go(addresses), true) && again == (.go(addresses), false))
  }

  @Test("A failed connection, and another network, have names asked for anew")
  func failure_forgetsAddresses() throws {
    var book = AddressBook()
    for forget in [{ $0.failed(server) }, { $0.networkChanged() }] as [(inout AddressBook) -> Void] {
      _ = book.look(up: server, at: start)
      book.found(try outcome(), at: start)
      forget(&book)
      let next = book.look(up: server, at: start)
      #expect(next == (.wait, true))
      book.found(try outcome(), at: start)
    }
  }

  @Test("A resolver that does not answer holds up nothing, until a connection fails")
  func failedRace_keepsAddresses() throws {
    var book = AddressBook()
    let addresses = [try address()]
    _ = book.look(up: server, at: start)
    book.found(try outcome(), at: start)
    let old = book.look(up: server, at: start + .seconds(60))
    book.found(RaceOutcome(server: server, addresses: []), at: start + .seconds(63))
    let soon = book.look(up: server, at: start + .seconds(72))
    let later = book.look(up: server, at: start + .seconds(73))
    #expect(old == (.go(addresses), true) && soon == (.go(addresses), false) && later == (.go(addresses), true))
    book.failed(server)
    let failed = book.look(up: server, at: start + .seconds(74))
    #expect(failed == (.wait, false), "the race that is under way is waited for")
    book.found(RaceOutcome(server: server, addresses: []), at: start + .seconds(76))
    let next = book.look(up: server, at: start + .seconds(76))
    #expect(next == (.wait, true))
  }

  @Test("Addresses that were not used for two minutes are asked for first")
  func restedAddresses_areNotUsed() throws {
    var book = AddressBook()
    _ = book.look(up: server, at: start)
    book.found(try outcome(), at: start)
    let used = book.look(up: server, at: start + .seconds(119))
    book.found(RaceOutcome(server: server, addresses: []), at: start + .seconds(120))
    let rested = book.look(up: server, at: start + .seconds(239))
    let addresses = [try address()]
    #expect(used == (.go(addresses), true) && rested == (.wait, true))
  }

  @Test("What a race finds that began in another network is not remembered")
  func networkChange_outdatesTheRace() throws {
    var book = AddressBook()
    _ = book.look(up: server, at: start)
    book.networkChanged()
    let during = book.look(up: server, at: start)
    book.found(try outcome(), at: start)
    let after = book.look(up: server, at: start)
    #expect(during == (.wait, false) && after == (.wait, true))
    book.found(try outcome(), at: start)
    let settled = book.look(up: server, at: start)
    let addresses = [try address()]
    #expect(settled == (.go(addresses), false))
  }

  @Test("A request that came late to a race has waited for a part of it")
  func lateRequest_hasWaitedForLess() throws {
    var outcome = try outcome()
    (outcome.namesTime, outcome.roundTrip) = (.milliseconds(1000), .milliseconds(100))
    let times = [1200, 1100, 300, 40].map { waited in
      let part = outcome.since(start, at: start + .milliseconds(waited))
      return [part.namesTime / .milliseconds(1), part.roundTrip / .milliseconds(1)]
    }
    #expect(times == [[1000, 100], [1000, 100], [200, 100], [0, 40]])
  }

  @Test("One address that took no connection is no end of the search: those of the other family may come late")
  func oneDeadAddress_isNotSettled() throws {
    var book = AddressBook()
    let addresses = [try address()]
    for wasTried in [true, false] {
      _ = book.look(up: server, at: start)
      book.found(RaceOutcome(server: server, addresses: addresses, wasTried: wasTried), at: start)
      let next = book.look(up: server, at: start)
      #expect(next == (.go(addresses), wasTried))
    }
  }

  @Test(
    "Addresses and this machine have no name to ask for",
    arguments: [
      "https://192.0.2.1/x", "https://[2001:db8::1]:8443/x", "https://localhost:9/x", "http://bucket.localhost/x",
    ])
  func whatIsNoName_isNotAskedFor(url: String) {
    #expect(RequestTarget(url: url)?.namedServer == nil)
  }

  @Test("A server's port is the scheme's unless it is written")
  func port() {
    #expect(RequestTarget(url: "https://Upload.example.org/x")?.namedServer == server)
    #expect(RequestTarget(url: "https://u:p@upload.example.org:8443/x")?.namedServer?.port == 8443)
    #expect(RequestTarget(url: "http://upload.example.org")?.namedServer?.port == 80)
  }
}
