import Fuzzing

/// What reads the answers of servers.
let parsers: [FuzzedParser] =
  transportParsers + bodyParsers + s3Parsers + webDAVParsers + appendingParsers + destinationParsers
