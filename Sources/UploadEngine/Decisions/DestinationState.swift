/// What is known of the destination, and of the path to it: what it can do, what it has said and refused, over which addresses it is to be had,
/// and whether anything is sent to it now.
struct DestinationState: Sendable {
  /// A server may say more of them than was known at the start; see ``DestinationOffers``.
  var abilities: DestinationAbilities
  var sizes = LearnedSizes()
  var forms = RequestForms()
  var gate = DestinationGate()
  var endpoints: EndpointTable
  var refusals = Refusals()
  /// Only what was not tried in vain has its turn; see ``UploadSchedule/probeWithUntried(at:)``.
  var isProbingWithUntried = false
  var latestAnswer = LatestAnswer()
  var credentialTrial = CredentialTrial()
  var warmConnections = WarmConnections()
  var path = PathProof()
  var sessionsToEnd = SessionsToEnd()

  init(_ abilities: DestinationAbilities, endpointCount: Int) {
    self.abilities = abilities
    endpoints = EndpointTable(count: endpointCount)
  }
}
