import Fuzzing
import Lookup
import TransferModel

@testable import Destinations

private let uploadWords =
  responseWords + [
    "Upload-Limit: max-size=5, min-append-size=2", "Upload-Offset: ", "Upload-Complete: ?1", "max-append-size=",
    "max-age=", "Tus-Version: 1.0.0", "Tus-Extension: creation,checksum,concatenation", "Tus-Max-Size: ",
    "Tus-Checksum-Algorithm: sha1,sha256", "Accept-Patch: application/partial-upload",
    "Upload-Draft-Interop-Version: 8", "{\"success\":false}", "{\"error\":{\"message\":\"",
  ]

let appendingParsers: [FuzzedParser] = [
  FuzzedParser(
    "ResumableLimits", words: uploadWords,
    texts: [
      "HTTP/1.1 204 x\r\nUpload-Limit: max-size=5\r\nUpload-Limit: min-append-size=2;x, other=\"y\"\r\n\r\n",
      "HTTP/1.1 204 x\r\nUpload-Limit: max-append-size=999999999999999, min-append-size=0, max-age=-1\r\n\r\n",
      "HTTP/1.1 200 OK\r\nUpload-Offset: 5\r\nUpload-Complete: ?0\r\nUpload-Draft-Interop-Version: 8\r\n\r\n",
      "HTTP/1.1 204 x\r\nAccept-Patch: text/plain, Application/Partial-Upload;x=1\r\n\r\n",
      "HTTP/1.1 409 x\r\nContent-Type: application/problem+json\r\n\r\n"
        + #"{"type":"https://iana.org/assignments/http-problem-types#mismatching-upload-offset"}"#,
    ]
  ) { input in
    let seen = response(input.bytes)
    let answer = ResumableAnswer(response: seen, server: "The server")
    requireSound(answer.failure())
    _ = (answer.isComplete, answer.problem, answer.refusesContent, answer.isOfAnotherState)
    if let offset = answer.offset { require(offset <= 999_999_999_999_999, "an offset has 15 digits") }
    guard let limits = answer.limits ?? ResumableFeatures(seen)?.limits else { return }
    for wanted in [1, 4095, 4096, 64 << 10, 4 << 20, 32 << 20] {
      let chunk = limits.narrowed(by: limits).narrowed(to: 1 << 20).chunkBytes(for: wanted)
      require(
        chunk.map { (1...wanted).contains($0) } ?? true,
        "a chunk is within what was wanted: \(String(describing: chunk))")
      require(limits.chunkBytes(for: wanted).map { $0 <= wanted } ?? true, "a chunk is not longer than wanted")
    }
  },
  FuzzedParser(
    "TusFeatures", words: uploadWords,
    texts: [
      "HTTP/1.1 204 x\r\nTus-Version: 1.0.0,0.2.2\r\nTus-Extension: creation,creation-with-upload,checksum\r\n"
        + "Tus-Checksum-Algorithm: md5,sha1\r\nTus-Max-Size: 18446744073709551615\r\n\r\n",
      "HTTP/1.1 413 x\r\nTus-Max-Size: 5\r\nContent-Type: text/plain\r\n\r\ntoo \u{9b} large",
    ]
  ) { input in
    let seen = response(input.bytes)
    requireSound(TusAnswer(response: seen, address: "up.example.org").failure(limitBytes: 7))
    guard let features = TusFeatures(seen) else { return }
    require(features.fileBytesMax.map { $0 > 0 } ?? true, "a limit is a number of bytes")
    require(features.checksum == nil || features.extensions.contains("checksum"), "a checksum is an extension")
    _ = (features.concatenates, features.takesBodyAtCreation, features.defersLength, features.joinsUnfinished)
  },
  FuzzedParser(
    "FormAnswer", bytesMax: 4096,
    words: uploadWords + ["\"id\":", "\"limit\":", "\"status\":\"error\"", "1e999", "[[", "{\"a\":"],
    texts: [
      "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n{\"id\":\"7\",\"success\":true,\"n\":1.5e3}",
      "HTTP/1.1 413 x\r\n\r\n{\"error\":{\"message\":\"no \u{9b}\"},\"limit\":-9223372036854775808}",
      "HTTP/1.1 302 x\r\nLocation: /login?\u{85}\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n[[[[[[{}]]]]]]",
      "HTTP/1.1 500 x\r\nContent-Type: text/plain\r\n\r\nwhy",
      "HTTP/1.1 200 OK\r\n\r\n{\"a\":1e308,\"b\":-0.0,\"c\":null}",
    ]
  ) { input in
    let answer = FormAnswer(response(input.bytes))
    if let failure = answer.failure(at: "forms.example.org", sizeBytes: 9, digestField: "a.b") { requireSound(failure) }
    if let id = answer.id { require(!id.isEmpty && id.utf8.count <= 256, "a name is short") }
    _ = answer.publishedAtMilliseconds
    guard let kept = answer.keptJSON(without: []) else { return }
    let again = FormAnswer(HTTPResponse(status: 200, headers: [], body: Array(kept.utf8)))
    require(kept.utf8.count > 64 << 10 || again.keptJSON(without: []) == kept, "what is kept is read again")
  },
]
