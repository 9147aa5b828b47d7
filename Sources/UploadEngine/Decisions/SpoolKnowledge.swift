/// What is known of the spool as a whole, and what is to be done in it.
struct SpoolKnowledge: Sendable {
  /// The scan has found all of its files.
  var isScanned = false
  var health = SpoolHealth()
  /// Which contents the catalog may record as on the spool's disk.
  var rounds = DiskRounds()
  var orders = SpoolOrders()
  var comparisons = ContentComparisons()
}
