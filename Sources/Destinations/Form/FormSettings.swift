import TransferModel

/// A form and how it is filled in.
public struct FormSettings: Hashable, Sendable {
  /// Where it is.
  public var address: FormAddress
  /// What the answer of a success holds; nil where its status and its JSON tell.
  public var successText: String?
  /// The field that holds the file.
  public var fileField: String
  /// Further fields.
  public var fields: [FormField]
  /// What follows when it is not known how a request ended.
  public var unclear: AmbiguousOutcomePolicy
  /// Where a conflict's JSON says the SHA-256 of what the server has.
  public var digestField: String
  /// Members of its answers that are not kept, beside the usual ones.
  public var omittedMembers: [String]
  /// The largest file that is sent; nil when no limit is known.
  public var fileBytesMax: UInt64?
}

extension SettingKey {
  fileprivate static let field = SettingKey("form-field")
  fileprivate static let extra = SettingKey("form-extra")
  fileprivate static let unclear = SettingKey("form-unclear")
  fileprivate static let success = SettingKey("form-success")
  fileprivate static let digestField = SettingKey("form-digest-field")
  fileprivate static let omit = SettingKey("form-omit")
  fileprivate static let maxUploadSize = SettingKey("max-upload-size")
}

extension FormSettings: DestinationScheme {
  static let scheme = "form+https"
  static let schemesElsewhere = ["form"]
  static let spelling = "An upload form is form+https://HOST/PATH."
  static let ownSettings: [SettingKey] = [
    .field, .extra, .unclear, .success, .digestField, .omit, .maxUploadSize,
  ]
  static let foreignSettings: [SettingKey] = [.alsoTo]
  static let whyForeign = "is not for forms: a form has one address"
  static let serverOfOneAddress: String? = nil

  static func isOne(_ address: String) -> Bool { FormAddress.isOne(address) }

  var settings: DestinationSettings { .form(self) }
  var endpoint: EndpointURL { address.endpoint }
  var tellsOwners: Bool { false }
  var triesCredentials: Bool { false }

  init(at address: String, _ source: any DestinationSettingSource) throws(SettingRefusal) {
    self.address = try source.address(address, FormAddress.init)
    let usual = FormOptions()
    fields = try source.values(of: .extra, FormField.init)
    successText = try source.text(of: .success)
    fileField = try source.text(of: .field) ?? usual.fileField
    unclear = try source.choice(of: .unclear) ?? usual.unclear
    digestField = try source.text(of: .digestField) ?? usual.digestField
    omittedMembers = source.values(of: .omit).map { $0.lowercased() }
    fileBytesMax = try source.bytes(of: .maxUploadSize, atLeast: 1)
  }

  func makeDestination(in context: DestinationContext) throws(DestinationError) -> any Destination {
    var options = FormOptions()
    options.successText = successText
    options.fileField = fileField
    options.fields = fields
    options.unclear = unclear
    options.digestField = digestField
    options.omittedMembers.insert(omittedMembers)
    options.fileBytesMax = fileBytesMax
    options.parallelRequests = context.parallelRequests
    options.bufferBytes = context.chunkBytes
    return try FormDestination(address: address, credential: context.credential, options: options)
  }
}
