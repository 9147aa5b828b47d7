import Fuzzing

/// What reads files that an earlier run, a crash or a person left on the disk.
let parsers: [FuzzedParser] =
  resumeParsers + journalParsers + attributeParsers + sessionParsers + settingParsers + nameParsers + catalogParsers
