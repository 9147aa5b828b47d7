import Destinations
import Glibc

do {
  exit(try SimulationCommand(Array(CommandLine.arguments.dropFirst())).run())
} catch let error as SimulationCommand.UsageError {
  print("\(error.message)\n\n\(SimulationCommand.usage)")
  exit(2)
} catch {
  print("\(error)")
  exit(2)
}
