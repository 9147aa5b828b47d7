import TransferModel

/// A receiver and how it is reached.
public struct ReceiverSettings: Hashable, Sendable {
  /// Its address.
  public var endpoint: EndpointURL
  /// Its further addresses.
  public var alternatives: [EndpointURL]

  /// Addresses of one receiver, the first included.
  private static let endpointsMax = 8
}

extension ReceiverSettings: DestinationKind {
  static let whyNoPassword: String? =
    "an uploadfs-receiver knows tokens, and no passwords; use \(SettingKey.tokenFile.flag) or "
    + SettingKey.tokenCommand.flag

  init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal) {
    endpoint = try source.address(address, EndpointURL.init)
    alternatives = try Self.alternatives(to: endpoint, source)
  }

  /// In the order given; the same address twice would count its health twice.
  private static func alternatives(
    to first: EndpointURL, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> [EndpointURL] {
    guard let given = try source.text(of: .alsoTo) else { return [] }
    var known = [first]
    for text in given.split(separator: ",") {
      let next = try alternative(String(text.drop { $0 == " " }.prefix { $0 != " " }), source)
      guard !known.contains(next) else {
        throw SettingRefusal("\(source.name(of: .alsoTo)): the address \(next.text) is given twice")
      }
      known.append(next)
    }
    guard known.count <= endpointsMax else {
      throw source.refusal(of: .alsoTo, "use at most \(endpointsMax - 1) addresses")
    }
    return Array(known.dropFirst())
  }

  private static func alternative(
    _ text: String, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> EndpointURL {
    if let server = DestinationSettings.schemes.first(where: { $0.isOne(text) })?.serverOfOneAddress {
      throw SettingRefusal(
        "\(source.name(of: .alsoTo)): \(server) has one address, which \(SettingKey.to.flag) takes")
    }
    return try source.address(text, of: .alsoTo, EndpointURL.init)
  }

  func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination {
    var options = ChunkProtocolOptions()
    options.parallelChunks = context.parallelRequests
    options.chunkBytesMax = context.chunkBytes
    options.wholeFileBytesMax = context.chunkBytes
    options.fileBytesMax = context.fileBytesMax
    options.allowPlainHTTP = context.allowPlainHTTP
    options.ifExists = context.ifExists ?? options.ifExists
    return try ChunkProtocolDestination(
      baseURL: endpoint.text, alternatives: alternatives.map(\.text), credential: context.credential, options: options)
  }

  func transport(
    over requests: any HTTPTransport, spool: any SpoolPresence, warn: @escaping @Sendable (_ text: String) -> Void
  ) -> any HTTPTransport {
    let heard = InstanceTransport(requests, server: endpoint.text, say: warn)
    return SpoolTransport(heard, identity: spool, server: endpoint.text)
  }
}
