/// The known name that a misspelt one most likely means; nil when none is near.
func nearestName(to text: String, among known: [String]) -> String? {
  let nearest = known.map { (name: $0, distance: editDistance(text.lowercased(), $0.lowercased())) }
    .min { $0.distance < $1.distance }
  guard let nearest, nearest.distance <= max(2, text.count / 3) else { return nil }
  return nearest.name
}

/// Insertions, deletions and substitutions between two texts (Levenshtein).
private func editDistance(_ left: String, _ right: String) -> Int {
  let right = Array(right)
  var row = Array(0...right.count)
  for (i, character) in left.enumerated() {
    var next = [i + 1]
    for (j, other) in right.enumerated() {
      next.append(min(row[j] + (character == other ? 0 : 1), row[j + 1] + 1, next[j] + 1))
    }
    row = next
  }
  return row[right.count]
}
