/// What the catalog records of files that nothing else describes yet.
struct CatalogKnowledge: Sendable {
  var recovery = Recovery()
  var claims = CatalogClaims()
}
