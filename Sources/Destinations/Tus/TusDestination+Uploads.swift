import TransferModel

extension TusDestination {
  /// The uploads that the requests of a step name.
  func uploads(of step: DestinationStep, _ responses: [HTTPResponse]) -> [String] {
    address.created(in: responses) + uploads(of: step)
  }

  private func uploads(of step: DestinationStep) -> [String] {
    switch step {
    case .querySession(let session), .secureSession(let session), .abort(let session): return uploads(of: session)
    case .chunk(let sending):
      let sequence = sending.position.after.flatMap { TusPartial(token: $0)?.upload }
      return uploads(of: sending.session) + (sequence.map { [$0] } ?? [])
    case .commit(let commit): return uploads(of: commit.session) + parts(of: commit.chunks)
    case .prewarm, .openSession, .wholeFile, .bundle, .run, .zeros: return []
    }
  }

  private func uploads(of session: SessionIdentity) -> [String] {
    let joined = [memory.joinedEarlier(of: session.id), memory.joined(of: session.id)].compactMap { $0 }
    let own: [String] =
      switch TusSession(session.id) {
      case .one(let upload, _, _), .partial(let upload): [upload]
      case .sequences, nil: []
      }
    return own + joined.flatMap { [$0.upload, $0.latch] }
  }

  /// The chunks of a sequence have one token, and stand together.
  private func parts(of chunks: [CommittedChunk]) -> [String] {
    var tokens: [String] = []
    for chunk in chunks where tokens.last != chunk.token { tokens.append(chunk.token) }
    return tokens.compactMap { TusPartial(token: $0)?.upload }
  }
}
