/// What the catalog says of files that nothing else says yet.
struct CatalogKnowledge: Sendable {
  var recovery = Recovery()
  var claims = CatalogClaims()
}
