import Testing
import TransferModel

@testable import Destinations

@Suite struct S3UploadListTests {
  private func answer(_ text: String, status: Int = 200) -> HTTPResponse {
    Fixture.answer(status, text: "<ListMultipartUploadsResult>\(text)</ListMultipartUploadsResult>")
  }

  @Test func list_staysBelowThePrefix_andGoesOnWhereThePageEnded() throws {
    let destination = try S3Fixture.destination()
    let start = "https://s3.example.org:9000/captures/"
    let first = try #require(destination.sessionListRequest(after: nil, at: .first))
    #expect((first.method, first.url) == (.get, start + "?prefix=day%201%2F&uploads="))
    let page = try #require(
      destination.sessionPage(
        in: answer(
          "<NextKeyMarker>day 1/a&amp;b</NextKeyMarker><NextUploadIdMarker>x/1</NextUploadIdMarker>"
            + "<IsTruncated>true</IsTruncated>")))
    #expect(page.sessions.isEmpty)
    let second = try #require(destination.sessionListRequest(after: page.next, at: .first))
    #expect(
      second.url == start + "?key-marker=day%201%2Fa%26b&prefix=day%201%2F&upload-id-marker=x%2F1&uploads=")
    let bucket = try S3Fixture.destination("s3+https://s3.example.org:9000/captures")
    #expect(bucket.sessionListRequest(after: nil, at: .first)?.url == start + "?uploads=")
  }

  /// They are compared with what openings have answered.
  @Test func uploads_areCalledAsTheirSessions() throws {
    let page = try #require(
      try S3Fixture.destination().sessionPage(
        in: answer(
          "<Upload><Key>day 1/a.mov</Key><UploadId>up/load+1</UploadId><Initiated>2026-11-22T01:02:03.5Z</Initiated>"
            + "</Upload><Upload><Key>b</Key><UploadId>2</UploadId></Upload><Upload><Key>c</Key></Upload>")))
    #expect(
      page.sessions == [
        SessionPage.Session(id: S3Fixture.session.id, begunAtSeconds: 1_795_309_323),
        SessionPage.Session(id: "b?2", begunAtSeconds: nil),
      ])
    #expect(page.next == nil)
  }

  @Test func whatIsNoList_isNone() throws {
    let destination = try S3Fixture.destination()
    for response in [
      S3Fixture.error(403, "AccessDenied"), S3Fixture.error(501, "NotImplemented"), Fixture.answer(200, text: "<x/>"),
      Fixture.answer(200, text: ""), answer("<IsTruncated>true</IsTruncated>"), answer("", status: 500),
    ] {
      #expect(destination.sessionPage(in: response) == nil)
    }
  }
}
