import GRDB

/// The SQLite that is loaded.
public enum DatabaseLibrary {
  /// As SQLite counts: 3040001 is 3.40.1.
  public static var version: String {
    let number = Database.sqliteLibVersionNumber
    return "SQLite \(number / 1_000_000).\(number / 1000 % 1000).\(number % 1000)"
  }
}
