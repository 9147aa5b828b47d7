/// The known name that a misspelt one most likely means; nil when none is near. Of a name of several words the first ones may stand
/// for all.
public func nearestName(to text: String, among known: [String]) -> String? {
  let text = text.lowercased()
  let nearest = known.map { (name: $0, distance: distance(from: text, to: $0.lowercased())) }
    .min { $0.distance < $1.distance }
  guard let nearest, nearest.distance <= 2 * max(2, text.count / 3), nearest.distance < 2 * text.count else {
    return nil
  }
  return nearest.name
}

/// Twice as many as there are changes between two names, and one where only the first words of the known one are meant.
private func distance(from text: String, to name: String) -> Int {
  var least = 2 * editDistance(text, name)
  for end in name.indices where name[end] == "-" {
    least = min(least, 2 * editDistance(text, String(name[..<end])) + 1)
  }
  return least
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
