import ChunkProtocol
import TransferModel

/// Takes the addresses of uploads out of what a server says of a failure: a user who has one may need nothing else to read, change or take away
/// what was uploaded, and messages and the log are read by others.
struct UploadAddressMask {
  /// What stands in the place of one.
  static let replacement = "[upload]"
  /// Shorter paths are no secrets, and would be found in any text.
  private static let pathBytesMin = 6
  /// So long a part of an address is one by itself.
  private static let partBytesMin = 16
  /// How much must stand behind what is no secret, where a text was cut.
  private static let beginningBytesMin = 4

  private let mask: TextMask

  /// Of these uploads; `address` is where they are created, which is shown.
  init(_ uploads: [String], at address: TusAddress) {
    mask = TextMask(uploads.flatMap { Self.secrets(of: $0, at: address) }, replacement: Self.replacement)
  }

  func hide(in text: String) -> String { mask.hide(in: text) }

  /// The path with what follows it, the path, and what of both is long; each as it is and without escapes.
  private static func secrets(of upload: String, at address: TusAddress) -> [TextMask.Secret] {
    let target = upload.hasPrefix("/") ? upload : place(in: upload)
    let path = String(target.prefix { $0 != "?" })
    let query = target.dropFirst(path.count).dropFirst()
    let values: [Substring] = query.split(separator: "&").map { $0.split(separator: "=", maxSplits: 1).last ?? "" }
    let parts = Array(path.split(separator: "/").suffix(1)) + values
    // The first folder is shown, and what an upload shares with the address where it was created.
    let firstFolder = path.dropFirst().firstIndex(of: "/").map { path[...$0].utf8.count } ?? 1
    let shared = zip(path.utf8, address.path.utf8).prefix { $0 == $1 }.count
    let open = String(path.prefix(max(firstFolder, shared)))
    let paths = [target, path].filter { $0.utf8.count >= pathBytesMin && !address.text.contains($0) }
    let long = parts.map { String($0) }.filter { $0.utf8.count >= partBytesMin && !address.text.contains($0) }
    return paths.flatMap { secrets($0, behind: open) } + long.flatMap { secrets($0, behind: "") }
  }

  private static func secrets(_ text: String, behind open: String) -> [TextMask.Secret] {
    var secrets = forms(of: text, behind: open)
    if let plain = PercentCoding.decode(text), plain != text {
      secrets += forms(of: plain, behind: PercentCoding.decode(open) ?? open)
    }
    return secrets
  }

  private static func forms(of text: String, behind open: String) -> [TextMask.Secret] {
    zip(TextMask.forms(of: text), TextMask.forms(of: open)).map { form, open in
      TextMask.Secret(bytes: Array(form.utf8), beginningBytesMin: open.utf8.count + beginningBytesMin)
    }
  }

  /// Behind scheme and host.
  private static func place(in url: String) -> String {
    let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? url[...]
    return String(rest.drop { $0 != "/" && $0 != "?" })
  }
}

extension StepOutcome {
  /// The same without the addresses of these uploads in what is said of a failure.
  func hiding(_ uploads: @autoclosure () -> [String], at address: TusAddress) -> StepOutcome {
    guard case .refused(var failure) = self else { return self }
    failure.message = UploadAddressMask(uploads(), at: address).hide(in: failure.message)
    return .refused(failure)
  }
}

extension TusAddress {
  /// The uploads that the answers to a step say to have created.
  func created(in responses: [HTTPResponse]) -> [String] {
    responses.filter { (200..<300).contains($0.status) }.compactMap { $0.header("location").flatMap(resolve) }
  }
}
