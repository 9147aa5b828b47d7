/// The body of a multipart/form-data request with one file (RFC 7578): what stands before the file, and behind it.
struct MultipartForm {
  let boundary: String
  let head: [UInt8]
  let tail: [UInt8]

  /// `token` makes the boundary. No file holds it, as it is not known before.
  init(
    token: String, fields: [(name: String, value: String)], fileField: String, fileName: String, mimeType: String
  ) {
    boundary = "uploadfs-\(token)"
    var text = ""
    for field in fields {
      text +=
        "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(Self.quoted(field.name))\"\r\n\r\n\(field.value)\r\n"
    }
    text += "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(Self.quoted(fileField))\"; "
    text += "filename=\"\(Self.quoted(fileName))\"\r\nContent-Type: \(mimeType)\r\n\r\n"
    head = Array(text.utf8)
    tail = Array("\r\n--\(boundary)--\r\n".utf8)
  }

  var contentType: String { "multipart/form-data; boundary=\(boundary)" }

  /// As browsers write it (https://html.spec.whatwg.org/#multipart-form-data): UTF-8 as it is, but for what would end the
  /// text or its line. Other control characters would be taken for damage by some servers.
  private static func quoted(_ text: String) -> String {
    var quoted = ""
    for character in text.unicodeScalars {
      switch character {
      case "\"": quoted += "%22"
      case "\n": quoted += "%0A"
      case "\r": quoted += "%0D"
      case _ where character.value < 0x20 || character.value == 0x7f: quoted += "_"
      default: quoted.unicodeScalars.append(character)
      }
    }
    return quoted
  }
}
