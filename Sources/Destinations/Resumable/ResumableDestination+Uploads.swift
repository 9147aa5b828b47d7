import TransferModel

extension ResumableDestination {
  /// The uploads that the requests of a step name.
  func uploads(of step: DestinationStep, _ responses: [HTTPResponse]) -> [String] {
    address.created(in: responses) + uploads(of: step)
  }

  private func uploads(of step: DestinationStep) -> [String] {
    switch step {
    case .querySession(let session), .secureSession(let session), .abort(let session): uploads(of: session)
    case .chunk(let sending): uploads(of: sending.session)
    case .commit(let commit): uploads(of: commit.session)
    case .wholeFile(let sending):
      [memory.attempt(at: SmallFile(sending))?.earlier, memory.upload(of: SmallFile(sending))].compactMap { $0 }
    case .prewarm, .openSession, .bundle, .run, .zeros: []
    }
  }

  private func uploads(of session: SessionIdentity) -> [String] {
    ResumableSession(session.id).map { [$0.upload] } ?? []
  }
}
