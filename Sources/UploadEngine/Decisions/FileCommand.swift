public import FileModel

/// What a user wants of one file, whatever the engine would do without it.
public enum FileCommand: String, CaseIterable, Sendable {
  /// Try it again now.
  case retry
  /// Deliver it again, although it counts as delivered: the server has lost it.
  case resend
  /// End the upload and keep the file.
  case cancel
  /// Publish what is held back as it is.
  case publish
}

/// A command for one file, for all of its destinations or for one.
public struct FileOrder: Hashable, Sendable {
  /// Longer texts are no commands.
  static let bytesMax = 256

  /// The command.
  public var command: FileCommand
  /// The one destination that is meant; nil for all.
  public var destination: DestinationName?

  /// A command, for one destination or all.
  public init(_ command: FileCommand, destination: DestinationName? = nil) {
    self.command = command
    self.destination = destination
  }

  /// Reads `WORD` or `WORD NAME`, with blanks around them and a line break at the end; nil for anything else.
  public init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count <= Self.bytesMax, let text = String(validating: bytes, as: UTF8.self) else { return nil }
    let line = text.hasSuffix("\r\n") || text.hasSuffix("\n") ? text.dropLast() : text[...]
    guard !line.contains(where: \.isNewline) else { return nil }
    let parts = line.split { $0 == " " || $0 == "\t" }
    guard let first = parts.first, parts.count <= 2, let command = FileCommand(rawValue: String(first)) else {
      return nil
    }
    self.init(command)
    guard parts.count == 2 else { return }
    guard let name = DestinationName(String(parts[1])) else { return nil }
    destination = name
  }
}

/// Why a command was refused. The status of the file shows its state.
public enum FileOrderRefusal: Error, Hashable, Sendable {
  /// The command does not apply to the file's state.
  case doesNotApply
  /// There is no destination of this name.
  case unknownDestination
  /// The file is no longer in the spool.
  case unknownFile
  /// The decision could not be made durable.
  case notDurable(StorageError)
  /// The mount is ending.
  case ending
}

/// The result of a command at one uploader.
public enum FileCommandOutcome: Hashable, Sendable {
  /// The command is carried out, or had been before.
  case obeyed
  /// The command does not apply to the file's state.
  case doesNotApply
  /// The file goes to other destinations only.
  case goesElsewhere
  /// The file is no longer in the spool, or was never known.
  case unknownFile
}
