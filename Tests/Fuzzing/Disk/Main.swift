import Fuzzing

@main struct FuzzDisk {
  static func main() { FuzzGroup.main(parsers) }
}
