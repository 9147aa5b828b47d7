/// What people call the limits that a 413 comes from, which seldom says whose it is.
enum RequestLimitAdvice {
  /// Where a request's length is bounded.
  static let settings =
    "nginx client_max_body_size, Apache LimitRequestBody, Caddy request_body max_size, an application firewall (ModSecurity "
    + "SecRequestBodyLimit, a CDN's plan), PHP upload_max_filesize and post_max_size"
}
