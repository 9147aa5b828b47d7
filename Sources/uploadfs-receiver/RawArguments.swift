import ArgumentParser

/// The command line as the kernel has it.
enum RawArguments {
  /// Refuses what is no UTF-8: it would name another folder, with U+FFFD in its name.
  static func check() throws {
    for index in 1..<max(1, Int(CommandLine.argc)) {
      guard let argument = CommandLine.unsafeArgv[index], String(validatingCString: argument) == nil else { continue }
      throw ValidationError("Argument \(index) is no UTF-8; use a path that is.")
    }
  }
}
