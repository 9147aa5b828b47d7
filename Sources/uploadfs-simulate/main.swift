import Destinations
import Glibc

// Dictionaries are walked in an order that differs from process to process, unless this is set before the process starts. A
// seed has to give the same run every time.
if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
  setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
  execv("/proc/self/exe", CommandLine.unsafeArgv)
}

do {
  exit(try SimulationCommand(Array(CommandLine.arguments.dropFirst())).run())
} catch let error as SimulationCommand.UsageError {
  print("\(error.message)\n\n\(SimulationCommand.usage)")
  exit(2)
} catch {
  print("\(error)")
  exit(2)
}
