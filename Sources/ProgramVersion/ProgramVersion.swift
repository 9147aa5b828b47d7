import CBuildInformation

/// The version of all programs, in its only place: packages take it from here.
public enum ProgramVersion {
  /// As semver.org counts.
  public static let number = "0.2.0"

  /// The commit that was built, with `+changes` where files differed from it; nil where the build was not told.
  public static var commit: String? {
    let text = String(cString: uploadfs_build_commit())
    return text.isEmpty ? nil : text
  }

  /// What `--version` prints.
  /// - Parameter libraries: Those of the system that the program is linked with, each with its version.
  public static func text(of program: String, libraries: [String]) -> String {
    let commit = commit.map { " (commit \($0))" } ?? ""
    return "\(program) \(number)\(commit)\n" + libraries.joined(separator: ", ")
  }
}
