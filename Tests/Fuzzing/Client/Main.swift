import Fuzzing

@main struct FuzzClient {
  static func main() { FuzzGroup.main(parsers) }
}
