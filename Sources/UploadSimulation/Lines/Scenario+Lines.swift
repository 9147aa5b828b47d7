// One capture that takes a line half a minute: a seed draws the line from all kinds.
extension Scenario {
  static let line = Scenario("line") { $0.isOfLine = true }
  static let lineTus = Scenario("line-tus") { $0.useLine(to: .tus) }
  static let lineS3 = Scenario("line-s3") { $0.useLine(to: .s3) }
  static let lineForm = Scenario("line-form") { $0.useLine(to: .form) }

  /// Its connections are cut at one moment.
  static let lineCut = Scenario("line-cut") {
    $0.useLine(to: .receiver)
    $0.cutsLine = true
  }

  static let lines = [line, lineTus, lineS3, lineForm, lineCut]

  private mutating func useLine(to server: ServerKind) {
    isOfLine = true
    self.server = server
  }
}
