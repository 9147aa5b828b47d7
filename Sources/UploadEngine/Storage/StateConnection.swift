import GRDB
import Glibc

/// How long a start waits for a disk that refuses something, and how.
public struct StartupTimeout: Sendable {
  /// From the first try to the last one.
  let limit: Duration
  /// Waits so long; false when nothing more is to be tried, because the start is to end.
  let pause: @Sendable (Duration) -> Bool

  /// So long in all.
  public init(limit: Duration, pause: @escaping @Sendable (Duration) -> Bool) {
    self.limit = limit
    self.pause = pause
  }

  /// One try.
  public static let none = StartupTimeout(limit: .zero) { _ in false }
}

/// A connection to a database of the spool's state, which is opened anew once the disk has refused it something.
///
/// SQLite keeps what it has opened: a file that could be opened for reading only stays so, and what a failing disk has left of the
/// log's index in memory is not looked at again. So after such an error the connection goes, and the next call has a fresh one.
struct StateConnection {
  /// Whether a connection is the first one of this process.
  enum Opening { case first, again }

  private let path: String
  private let room: StateRoom?
  /// Makes a fresh connection what it has to be.
  private let prepare: @Sendable (DatabaseQueue, Opening) throws -> Void
  private var database: DatabaseQueue?
  private var opening = Opening.first

  init(path: String, room: StateRoom?, prepare: @escaping @Sendable (DatabaseQueue, Opening) throws -> Void) {
    self.path = path
    self.room = room
    self.prepare = prepare
  }

  /// Runs what is one transaction or only reads: after an error that may pass it runs once more, over a fresh connection, and where
  /// the disk is full once more in the room that is kept for that.
  mutating func use<Result>(_ body: (DatabaseQueue) throws -> Result) throws -> Result {
    try inRoom { connection in
      do {
        return try body(try connection.opened())
      } catch {
        guard StateDatabase.mayPass(error) || StateDatabase.saysDamaged(error) else { throw error }
        connection.drop()
      }
      do {
        return try body(try connection.opened())
      } catch {
        let cause = connection.cause(of: error)
        if StateDatabase.mayPass(cause) { connection.drop() }
        throw cause
      }
    }
  }

  /// Runs one transaction, as ``use(_:)`` does, that does not wait for the disk: it outlives the process, and a power cut once a later
  /// transaction has been synced, for the log is written in their order. (SQLite syncs the log's first page all the same when it begins
  /// anew, once in some hundred transactions; to empty it is left to others.)
  mutating func writeUnsynced<Result>(_ body: (Database) throws -> Result) throws -> Result {
    do {
      return try use { queue in
        try queue.writeWithoutTransaction { database in
          try database.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")
          var result: Result?
          try database.inTransaction(.immediate) {
            result = try body(database)
            return .commit
          }
          try database.execute(sql: "PRAGMA wal_autocheckpoint = 1000; PRAGMA synchronous = FULL")
          guard let result else { throw DatabaseError(resultCode: .SQLITE_ABORT) }
          return result
        }
      }
    } catch {
      // A fresh connection syncs again.
      drop()
      throw error
    }
  }

  /// A quota that is used up is an error of writing to SQLite.
  private mutating func inRoom<Result>(_ body: (inout Self) throws -> Result) throws -> Result {
    do {
      return try body(&self)
    } catch {
      guard StateDatabase.wantsRoom(error), let room, room.giveBack() else { throw error }
      return try body(&self)
    }
  }

  /// Opens it; again and again as long as that where what keeps it from that may pass.
  mutating func open(patience: StartupTimeout) throws {
    let end = ContinuousClock.now + patience.limit
    var pause = Duration.milliseconds(50)
    var wasDamaged = false
    while true {
      do {
        return try inRoom { _ = try $0.opened() }
      } catch {
        let error = cause(of: error)
        if StateDatabase.saysDamaged(error), !wasDamaged {
          // An error of the disk may have looked so.
          wasDamaged = true
          continue
        }
        guard StateDatabase.mayPass(error), ContinuousClock.now < end, patience.pause(pause) else { throw error }
        pause = min(pause * 2, .seconds(1))
      }
    }
  }

  /// To SQLite a page that the disk refuses to give is a damaged one (SQLITE_IOERR_CORRUPTFS, which statements turn into
  /// SQLITE_CORRUPT). So a database counts as damaged only where the disk gives all of it.
  private func cause(of error: any Error) -> any Error {
    guard StateDatabase.saysDamaged(error), !StateDatabase.canBeRead(path) else { return error }
    return DatabaseError(resultCode: .SQLITE_IOERR, message: "disk I/O error")
  }

  /// Lets go of the file. What can fail in that is tidying up, which the next opening does as well.
  mutating func drop() {
    if database != nil { LogMarker.end(path) }
    try? database?.close()
    // GRDB hands SQLite a dangling connection after its own `close`.
    database = nil
  }

  private mutating func opened() throws -> DatabaseQueue {
    if let database { return database }
    let fresh = try StateDatabase.open(path)
    do {
      try emptyLog(of: fresh)
      try prepare(fresh, opening)
      LogMarker.begin(path)
    } catch {
      try? fresh.close()
      throw error
    }
    opening = .again
    database = fresh
    return fresh
  }

  /// Of a transaction whose sync has failed the log may hold what the disk does not. What is written behind that would be lost
  /// with it in a power cut: so it goes to the database first. At the start a full disk does not matter: what its log has is used
  /// from there.
  private func emptyLog(of database: DatabaseQueue) throws {
    do {
      try database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
    } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL && opening == .first {
      return
    }
  }
}
