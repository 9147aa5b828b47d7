import Fuzzing

/// What reads the requests of clients.
let parsers: [FuzzedParser] =
  bundleParsers + pathParsers + headerParsers + jsonParsers + requestParsers + blockParsers
