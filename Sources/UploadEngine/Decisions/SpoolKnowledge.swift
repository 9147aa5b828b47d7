/// What is known of the spool as a whole, and what is to be done in it.
struct SpoolKnowledge: Sendable {
  /// The search has found all of its files.
  var isScanned = false
  var health = SpoolHealth()
  /// What the catalog may say that the spool's disk has.
  var rounds = DiskRounds()
  var orders = SpoolOrders()
  var comparisons = ContentComparisons()
}
