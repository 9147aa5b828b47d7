import CCurl

/// The libcurl that is loaded.
public enum CurlLibrary {
  /// With its version and the library that its TLS comes from.
  public static var version: String {
    guard let about = uploadfs_curl_version() else { return "libcurl" }
    let version = about.pointee.version.map { " " + String(cString: $0) } ?? ""
    let tls = about.pointee.ssl_version.map { " with " + String(cString: $0) } ?? ""
    return "libcurl\(version)\(tls)"
  }
}
