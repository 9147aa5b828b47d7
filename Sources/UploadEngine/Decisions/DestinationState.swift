import TransferModel

/// What is known of the destination and the path to it: what it can do, what it has reported and refused, which
/// addresses reach it, and whether anything is sent to it now.
struct DestinationState: Sendable {
  /// A server may report more abilities than were known at the start; see ``DestinationOffers``.
  var abilities: DestinationAbilities
  var sizes = LearnedSizes()
  var forms = RequestForms()
  var gate = DestinationGate()
  var endpoints: EndpointTable
  var refusals = Refusals()
  /// Only files that no probe has failed with have their turn; see ``UploadSchedule/probeWithUntried(at:)``.
  var isProbingWithUntried = false
  var latestAnswer = LatestAnswer()
  var credentialTrial = CredentialTrial()
  var prewarmer = ConnectionPrewarmer()
  var path = PathProof()
  var sessionsToEnd = SessionsToEnd()

  init(_ abilities: DestinationAbilities, endpointCount: Int) {
    self.abilities = abilities
    endpoints = EndpointTable(count: endpointCount)
  }
}
