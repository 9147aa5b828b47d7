import TransferModel

/// What follows from the answers to a step so far.
enum NextRequest {
  case send(HTTPRequest)
  case ended(StepOutcome)
}
