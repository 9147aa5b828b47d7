import ChunkProtocol

/// What may arrive as the body of a request that the core has let in.
public struct AdmittedBody: Hashable, Sendable {
  /// What it is announced to be.
  public var plainBytes: Int

  /// Refuses a body of which more has arrived than was announced.
  public func check(arrivedBytes: Int) throws(Refusal) {
    guard arrivedBytes <= plainBytes else {
      throw Refusal(
        .badRequest(field: HeaderName.chunkSize), "the body is longer than the \(plainBytes) bytes announced")
    }
  }

  /// The digests of a body that is in memory as a whole. One that ended early has digests, too, and the core refuses it.
  public func facts(of body: [UInt8]) throws(Refusal) -> ChunkFacts {
    try check(arrivedBytes: body.count)
    return ChunkFacts(of: body)
  }
}

extension Refusal {
  /// The connection ended in mid-body.
  public static let bodyBrokeOff = Refusal(.badRequest(field: HeaderName.chunkSize), "the body broke off")
  /// The client sent nothing for too long, or took too long in all.
  public static let bodyTooSlow = Refusal(.bodyTimeout, "the body stood still for too long")
  /// There is no memory for the body.
  public static let noBodyMemory = Refusal(.busy, "too many bodies are arriving at once; come back")
}
