import TransferModel

/// A folder of a WebDAV server.
public struct WebDAVSettings: Hashable, Sendable {
  /// Where it is.
  public var address: WebDAVAddress
}

extension WebDAVSettings: DestinationScheme {
  static let scheme = "webdav+https"
  static let schemesElsewhere = ["webdav", "webdavs", "dav", "davs"]
  static let spelling = "A folder of a WebDAV server is webdav+https://HOST/PATH."
  static let ownSettings: [SettingKey] = []
  static let foreignSettings: [SettingKey] = [.alsoTo]
  static let whyForeign = "is not for WebDAV; see docs/destinations.md"
  static let serverOfOneAddress: String? = "a WebDAV server"

  static func isOne(_ address: String) -> Bool { WebDAVAddress.isOne(address) }

  var settings: DestinationSettings { .webDAV(self) }
  var endpoint: EndpointURL { address.endpoint }

  init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal) {
    self.address = try source.address(address, WebDAVAddress.init)
  }

  func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination {
    var options = WebDAVOptions()
    options.ifExists = context.ifExists ?? options.ifExists
    options.parallelRequests = context.parallelRequests
    options.bufferBytes = context.chunkBytes
    return try WebDAVDestination(
      address: address, credential: context.credential, options: options,
      whenConditionsFail: context.whenConditionsFail)
  }
}
