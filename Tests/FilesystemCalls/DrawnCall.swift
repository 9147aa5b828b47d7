/// Steps of the random model that are no single system call: each does what is sound with what is there, so that any part of a
/// sequence of operations can be played by itself.
package enum DrawnCall: Hashable, Sendable, Codable {
  /// lseek(2) of a regular file: positions in a directory are the filesystem's affair.
  case seek(Slot, Int64, Whence)
  /// Whether there are only zeros where SEEK_DATA finds no data. Where holes lie is the filesystem's affair.
  case seekHole(Slot, Int64)
  /// Maps the whole file, shared, in place of the slot's mapping before.
  case map(Slot)
  /// Reads the part of the slot's mapping that the file still has: the rest would be a SIGBUS.
  case load(Slot, at: Int64, Int)
  /// Changes that part and has it written back.
  case store(Slot, at: Int64, Payload)
  /// The tree below the current directory and that itself, with digests of the contents or without.
  case outline(withContents: Bool)
}
