/// A kind of destination whose addresses have a scheme of their own, and which has settings of its own.
protocol DestinationScheme: DestinationKind {
  /// The scheme of its addresses.
  static var scheme: String { get }
  /// What other programs call it.
  static var schemesElsewhere: [String] { get }
  /// How its addresses are written, in one sentence.
  static var spelling: String { get }
  /// Whether this looks like one of its addresses.
  static func isOne(_ address: String) -> Bool
  /// Settings that say nothing to other kinds, in the order in which they are looked at.
  static var ownSettings: [SettingKey] { get }
  /// Settings that say nothing to this kind, in the order in which they are looked at.
  static var foreignSettings: [SettingKey] { get }
  /// What is said of a foreign one.
  static var whyForeign: String { get }
  /// What a server is called that has no further addresses; nil where such an address is like any that is none.
  static var serverOfOneAddress: String? { get }
  /// The case that it is.
  var settings: DestinationSettings { get }
}

extension DestinationScheme {
  /// The settings of a destination at this address; nil where it is of another kind, of which nothing may be set that is this one's.
  static func read(
    at address: String, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) -> Self? {
    guard isOne(address) else {
      try refuse(ownSettings, "is for a destination of \(scheme):// only", source)
      return nil
    }
    try refuse(foreignSettings, whyForeign, source)
    return try Self(at: address, source)
  }

  private static func refuse(
    _ keys: [SettingKey], _ reason: String, _ source: any DestinationSettingSource
  ) throws(SettingRefusal) {
    guard let given = keys.first(where: source.isGiven) else { return }
    throw SettingRefusal("\(source.name(of: given)) \(reason)")
  }
}
