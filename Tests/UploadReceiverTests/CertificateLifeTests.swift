import Logging
import Testing

@testable import UploadReceiver

/// Regression: a certificate that had ended, or would the next day, was taken without a word.
@Suite struct CertificateLifeTests {
  private static let day: Int64 = 86_400
  private let life = CertificateLife(beginsAt: 1000 * day, endsAt: 1090 * day)

  @Test(
    arguments: [
      (1000 * day, nil, ""), (1076 * day - 1, nil, ""), (1076 * day, "warning", "ends in 14 days"),
      (1089 * day, "warning", "ends in 24 hours"), (1090 * day - 1, "warning", "ends in an hour"),
      (1090 * day, "error", "ended an hour ago"), (1190 * day, "error", "ended 100 days ago"),
      (997 * day, "error", "not valid before 3 days from now"),
    ] as [(Int64, String?, String)])
  func whatIsSaid(now: Int64, level: String?, words: String) {
    let trouble = life.trouble(at: now)
    #expect(
      trouble?.level.rawValue == level && trouble?.words.contains(words) ?? true, "\(trouble?.words ?? "nothing")")
    #expect(trouble?.words.contains("--certificate") ?? true)
  }
}
