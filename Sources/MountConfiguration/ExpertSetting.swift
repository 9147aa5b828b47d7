import Quantities
public import TransferModel

/// Times and counts that follow from measurements, and that few have a reason to change: the keys of the setting `expert`.
public enum ExpertSetting: String, CaseIterable, Sendable {
  case connectTimeout = "connect-timeout"
  case requestTimeout = "request-timeout"
  case stallTimeout = "stall-timeout"
  case answerTimeout = "answer-timeout"
  case retryDelay = "retry-delay"
  case retryDelayMax = "retry-delay-max"
  case filePauseMax = "file-pause-max"
  case chunkTries = "chunk-tries"
  case fileTries = "file-tries"
  case fileWatchdog = "file-watchdog"
  case globalWatchdog = "global-watchdog"
  case prefetch
  case sessionAge = "session-age"
  case proxyTLS = "proxy-tls"
  case http2Library = "http2-library"

  /// What can be set, and within which bounds.
  private enum Place {
    case time(WritableKeyPath<UploadTiming, Duration>, ClosedRange<Duration>)
    case count(WritableKeyPath<UploadTiming, Int>, ClosedRange<Int>)
    case version(WritableKeyPath<UploadTiming, TLSVersion>)
    case library(WritableKeyPath<UploadTiming, HTTP2Library>)
  }

  private var place: Place {
    switch self {
    case .connectTimeout: .time(\.requests.connect, .seconds(1) ... .seconds(300))
    case .requestTimeout: .time(\.requests.request, .seconds(5) ... .seconds(3600))
    case .stallTimeout: .time(\.requests.stall, .seconds(2) ... .seconds(600))
    case .answerTimeout: .time(\.requests.answer, .seconds(5) ... .seconds(7200))
    case .retryDelay: .time(\.retryDelay, .milliseconds(50) ... .seconds(60))
    case .retryDelayMax: .time(\.retryDelayMax, .seconds(1) ... .seconds(3600))
    case .filePauseMax: .time(\.filePauseMax, .seconds(15) ... .seconds(86_400))
    case .chunkTries: .count(\.chunkTries, 1...100)
    case .fileTries: .count(\.fileTries, 1...1000)
    case .fileWatchdog: .time(\.fileWatchdog, .seconds(15) ... .seconds(3600))
    case .globalWatchdog: .time(\.globalWatchdog, .seconds(60) ... .seconds(86_400))
    case .prefetch: .count(\.prefetch, 1...12)
    case .sessionAge: .time(\.sessionAge, .seconds(3600) ... .seconds(31_536_000))
    case .proxyTLS: .version(\.proxyTLS)
    case .http2Library: .library(\.http2Library)
    }
  }

  /// Sets the value that a text says; the reason why it cannot, as advice.
  func set(_ text: String, in timing: inout UploadTiming) -> String? {
    switch place {
    case .time(let path, let bounds):
      guard let time = Units.duration(text), bounds.contains(time) else {
        return "use a duration from \(Units.text(bounds.lowerBound)) to \(Units.text(bounds.upperBound))"
      }
      timing[keyPath: path] = time
    case .count(let path, let bounds):
      guard let count = Int(text), bounds.contains(count) else {
        return "use a number from \(bounds.lowerBound) to \(bounds.upperBound)"
      }
      timing[keyPath: path] = count
    case .version(let path):
      guard let version = TLSVersion(rawValue: text) else {
        return "use " + TLSVersion.allCases.map(\.rawValue).joined(separator: " or ")
      }
      timing[keyPath: path] = version
    case .library(let path):
      guard let library = HTTP2Library(rawValue: text) else {
        return "use " + HTTP2Library.allCases.map(\.rawValue).joined(separator: " or ")
      }
      timing[keyPath: path] = library
    }
    return nil
  }

  /// The specification's value, as it would be written.
  public var standardText: String { text(in: UploadTiming()) }

  /// Its value, as it would be written.
  func text(in timing: UploadTiming) -> String {
    switch place {
    case .time(let path, _): Units.text(timing[keyPath: path])
    case .count(let path, _): String(timing[keyPath: path])
    case .version(let path): timing[keyPath: path].rawValue
    case .library(let path): timing[keyPath: path].rawValue
    }
  }
}

extension UploadTiming {
  /// The values that are not the specification's, as `key=value`, in the order of the keys.
  public var changedSettings: [String] {
    let standard = UploadTiming()
    return ExpertSetting.allCases.filter { $0.text(in: self) != $0.text(in: standard) }
      .map { "\($0.rawValue)=\($0.text(in: self))" }
  }
}

extension SettingReader {
  /// Times and counts for experts.
  func timing() throws(ConfigurationError) -> UploadTiming {
    var timing = UploadTiming()
    guard let given = sources[.expert] else { return timing }
    let name = given.name(of: .expert)
    for text in given.plainValues {
      let parts = text.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        .map { String($0) }
      guard parts.count == 2 else {
        throw ConfigurationError("\(name): “\(text)” is no key=value, such as retry-delay-max=30s")
      }
      guard let setting = ExpertSetting(rawValue: parts[0]) else {
        let names = ExpertSetting.allCases.map(\.rawValue)
        let hint = nearestName(to: parts[0], among: names).map { "did you mean \($0)? " } ?? ""
        throw ConfigurationError("\(name): there is no “\(parts[0])”; \(hint)use " + names.joined(separator: ", "))
      }
      if let advice = setting.set(parts[1], in: &timing) {
        throw ConfigurationError("\(name): “\(text)” is not possible; \(advice)")
      }
    }
    guard timing.retryDelay <= timing.retryDelayMax else {
      throw ConfigurationError("\(name): retry-delay is longer than retry-delay-max")
    }
    guard timing.fileWatchdog <= timing.globalWatchdog else {
      throw ConfigurationError("\(name): file-watchdog is longer than global-watchdog")
    }
    return timing
  }
}
