import Fuzzing

@main struct FuzzReceiver {
  static func main() { FuzzGroup.main(parsers) }
}
