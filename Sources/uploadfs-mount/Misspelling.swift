import UploadEngine

/// A word that is none of those that are known.
struct Misspelling {
  private let word: String
  private let known: [String]

  init(_ word: String, of known: [String]) {
    self.word = word
    self.known = known
  }

  /// What was meant, perhaps; else what there is.
  var sentence: String {
    let nearest = known.map { (name: $0, distance: distance(to: $0)) }.min { $0.distance < $1.distance }
    guard let nearest, nearest.distance <= 2 else {
      return "there is no command “\(Readable.line(word))”; there are: \(known.joined(separator: ", "))"
    }
    return "there is no command “\(Readable.line(word))”; did you mean “\(nearest.name)”?"
  }

  /// Letters that are missing, too many or others (Levenshtein's distance).
  private func distance(to other: String) -> Int {
    let (letters, others) = (Array(word.unicodeScalars.prefix(64)), Array(other.unicodeScalars))
    var row = Array(0...others.count)
    for (index, letter) in letters.enumerated() {
      var diagonal = row[0]
      row[0] = index + 1
      for column in others.indices {
        let replaced = diagonal + (letter == others[column] ? 0 : 1)
        diagonal = row[column + 1]
        row[column + 1] = min(replaced, row[column] + 1, diagonal + 1)
      }
    }
    return row[others.count]
  }
}
