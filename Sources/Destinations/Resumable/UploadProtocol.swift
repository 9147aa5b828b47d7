/// What is spoken with a server of uploads.
public enum UploadProtocol: String, CaseIterable, Sendable {
  /// tus 1.0.0.
  case tus
  /// The IETF's draft, and nothing else.
  case ietf
  /// The draft where the server says that it speaks it, else tus.
  case automatic = "auto"
}
