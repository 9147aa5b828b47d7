"""A receiver that is spoken to by another client: right, wrong, and out of order. docs/protocol.md is the measure."""

import concurrent.futures
import hashlib
import os

import pytest

from harness import wait_until
from protocol_client import ProtocolClient, Session, chain_tip, crc32c, hkdf, merkle_root, statuses, tag

CHUNK = 256 << 10


@pytest.fixture
def client(receiver):
    return ProtocolClient(receiver)


@pytest.fixture
def untouched(receiver):
    """After the test, nothing but what it names lies outside of the receiver's own folders."""
    yield
    strangers = [path for path in receiver.root.parent.iterdir() if path not in (
        receiver.root, receiver.root.parent / f"{receiver.root.name}.log")]
    assert not strangers, strangers


def chunks_of(*sizes):
    return [bytes([number + 1]) * size for number, size in enumerate(sizes)]


@pytest.mark.promises("P87", "P88")
def test_this_client_computes_what_the_document_says():
    nonce = bytes(range(32))
    assert crc32c(b"123456789") == 0xE3069283
    assert hkdf(b"example-token", b"", b"uploadfs master key v1").hex() == (
        "39acbd35e0824dec4c33652e81455d0e6237153fc602573f8dec94e7ea4053c8")
    assert tag("example-token", nonce, "0123456789abcdef", 7, b"abc") == (
        "690f364446be8dce993c38240cccb856a481f3daa0b566880bff7e31de5a52f7")


@pytest.mark.promises("P23", "P34", "P90", "P91", "P98")
def test_foreign_client_delivers_a_file_out_of_order(client, receiver):
    chunks = chunks_of(CHUNK, CHUNK, 1000)
    session = Session(client, "dir/file.bin")
    assert session.opening.status == 201
    for index in (2, 0, 1):
        assert session.put(index, chunks[index]).status == 201
    assert session.put(1, chunks[1]).status == 200
    held = session.held(digests=True)
    assert held["held"] == [[0, 2]] and held["state"] == "open"
    assert held["digests"] == {str(i): hashlib.sha256(chunk).hexdigest() for i, chunk in enumerate(chunks)}
    answer = session.commit(chunks)
    assert answer.status == 200, answer
    receipt = answer.json
    digests = [hashlib.sha256(chunk).digest() for chunk in chunks]
    assert receipt["name"] == "dir/file.bin" and receipt["size"] == 2 * CHUNK + 1000
    assert receipt["merkle_root"] == merkle_root(digests).hex()
    assert receipt["chain_tip"] == chain_tip(session.id, digests).hex()
    published = receiver.files / "dir" / "file.bin"
    assert published.read_bytes() == b"".join(chunks)
    assert published.stat().st_mode & 0o7777 == 0o640
    assert published.stat().st_mtime_ns == 1_700_000_000_000_000_000
    assert session.commit(chunks).json == receipt
    assert session.put(0, chunks[0]).problem == "conflict"


NAMES = [
    "../escape", "a/../../escape", "/absolute", "a//b", "a/", "", ".", "..", "a/./b", "nul\x00byte", "line\nbreak",
    "\x85next-line", "x" * 256, "/".join(["d" * 200] * 25),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.promises("P73")
def test_bad_name_is_refused_everywhere_and_touches_nothing(client, receiver, untouched, name):
    session = Session(client, name)
    assert session.opening.problem == "name-refused", session.opening
    good = Session(client, "good")
    good.put(0, b"data")
    assert good.commit([b"data"], name=name).problem == "name-refused"
    assert good.held()["state"] == "open"
    assert receiver.published() == {}


@pytest.mark.parametrize("target", [
    "/v1/files/..%2Fescape", "/v1/files/a/..%2f..%2f..%2Fescape", "/v1/files/%2Fabsolute", "/v1/files/nul%00byte",
    "/v1/files/%FF%FE", "/v1/files/a//b", "/v1/files/",
])
@pytest.mark.promises("P61")
def test_bad_name_of_a_whole_file(client, receiver, untouched, target):
    data, nonce = b"data", os.urandom(32)
    answer = client.request("PUT", target, {
        "Idempotency-Key": '"key"', "X-Chunk-SHA256": hashlib.sha256(data).hexdigest(),
        "X-Chunk-CRC32C": f"{crc32c(data):08x}", "X-Chunk-Size": len(data), "X-Chunk-Nonce": nonce.hex(),
        "X-Chunk-HMAC": tag(client.token, nonce, "key", 0, data)}, data)
    assert answer.status in (400, 404, 422), answer
    assert receiver.published() == {}


@pytest.mark.promises("P74")
def test_symbolic_link_in_the_published_tree_is_not_followed(client, receiver, folder):
    outside = folder / "outside"
    outside.mkdir()
    receiver.files.mkdir(exist_ok=True)
    (receiver.files / "link").symlink_to(outside)
    session = Session(client, "link/file.bin")
    if session.id:
        session.put(0, b"data")
        assert session.commit([b"data"]).problem == "name-refused"
    assert list(outside.iterdir()) == []


@pytest.mark.promises("P31", "P39")
def test_lying_length(client, receiver):
    session = Session(client)
    data = b"x" * 1000
    assert session.put(0, data, X_Chunk_Size=999).problem == "bad-request"
    assert session.put(0, data, X_Chunk_Size=1001).problem == "bad-request"
    assert session.put(0, data, X_Chunk_Size=0).problem == "bad-request"
    assert session.put(0, data, X_Chunk_Size=-5).problem == "bad-request"
    assert session.put(0, data, X_Chunk_Size="9" * 30).status in (400, 413)
    assert session.put(0, b"x" * (CHUNK + 1)).problem == "too-large"
    assert session.held()["held"] == []
    session.put(0, data)
    assert session.commit([data], size=999).status in (400, 409, 422)
    assert session.commit([data], size=1 << 62).status in (400, 409, 413)
    assert session.commit([data], chunk_count=2).problem == "bad-request"
    assert session.commit([data]).status == 200


@pytest.mark.promises("P31", "P42", "R3")
def test_wrong_digest_and_wrong_tag(client, receiver):
    session = Session(client)
    data = b"x" * 1000
    wrong = session.put(0, data, X_Chunk_SHA256="00" * 32, X_Chunk_HMAC="00" * 32)
    assert wrong.problem in ("digest-mismatch", "tag-mismatch")
    assert session.put(0, data, X_Chunk_CRC32C="00000000").problem == "digest-mismatch"
    assert session.put(0, data, X_Chunk_HMAC="00" * 32).problem == "tag-mismatch"
    other = tag(client.token, session.nonce, session.id, 1, data)
    assert session.put(0, data, X_Chunk_HMAC=other).problem == "tag-mismatch", "a tag is for one place"
    assert "tamper" in receiver.program.log.lower()
    assert session.held()["held"] == []
    session.put(0, data)
    assert session.commit([data], merkle_root="00" * 32).problem == "digest-mismatch"
    assert session.commit([data], chain_tip="00" * 32).problem == "digest-mismatch"
    assert receiver.published() == {}
    assert session.commit([data]).status == 200


@pytest.mark.promises("P22", "P29", "P41")
def test_chunks_beyond_the_end(client, receiver):
    session = Session(client)
    chunks = chunks_of(CHUNK, 1000)
    for index, chunk in enumerate(chunks):
        session.put(index, chunk)
    assert session.put(7, b"beyond").status == 201
    assert session.put(200_000, b"far beyond").problem == "too-large"
    headers = session.chunk_headers(7, b"x")
    for index in ("007", "-1", "+7", "7x", "", "9" * 40):
        answer = client.request("PUT", f"/v1/uploads/{session.id}/chunks/{index}", headers, b"x")
        assert answer.problem in ("bad-request", "not-found", "too-large"), (index, answer)
    answer = session.commit(chunks)
    assert answer.status == 200, answer
    assert (receiver.files / "file.bin").read_bytes() == b"".join(chunks)


@pytest.mark.promises("P41")
def test_commit_with_missing_chunks_names_them(client, receiver):
    session = Session(client)
    chunks = chunks_of(CHUNK, CHUNK, CHUNK, 10)
    session.put(1, chunks[1])
    answer = session.commit(chunks)
    assert answer.problem == "incomplete" and answer.json["missing"] == [0, 2, 3]
    for index in (0, 2, 3):
        session.put(index, chunks[index])
    assert session.commit(chunks).status == 200


@pytest.mark.promises("P40")
def test_commit_waits_for_the_last_chunk(client, receiver):
    session = Session(client)
    chunks = chunks_of(CHUNK, 100_000)
    session.put(0, chunks[0])
    with client.raw() as slow, concurrent.futures.ThreadPoolExecutor() as pool:
        head = "".join(f"{name}: {value}\r\n" for name, value in session.chunk_headers(1, chunks[1]).items())
        slow.sendall(
            f"PUT /v1/uploads/{session.id}/chunks/1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {client.token}\r\n"
            f"Content-Length: {len(chunks[1])}\r\n{head}\r\n".encode() + chunks[1][:50_000])
        committing = pool.submit(session.commit, chunks)
        # Ends at once when the commit does not wait for the rest of the chunk.
        assert not concurrent.futures.wait([committing], timeout=0.5).done
        slow.sendall(chunks[1][50_000:])
        assert committing.result(60).status == 200
    assert (receiver.files / "file.bin").read_bytes() == b"".join(chunks)


@pytest.mark.promises("P33b", "P33d", "P33e")
def test_a_run_is_stored_chunk_by_chunk(client, receiver):
    session, other = Session(client), Session(client)
    chunks = chunks_of(CHUNK, CHUNK, 1000)
    wrong = session.member(1, chunks[1], X_Chunk_SHA256="00" * 32)
    answer = session.put_run([session.member(2, chunks[2]), wrong, other.member(0, chunks[0]), session.member(0, chunks[0])])
    assert statuses(answer) == [201, 422, 400, 201]
    assert session.held()["held"] == [[0, 0], [2, 2]] and other.held()["held"] == []
    assert statuses(session.put_run([session.member(index, chunk) for index, chunk in enumerate(chunks)])) == [200, 201, 200]
    assert session.commit(chunks).status == 200
    assert (receiver.files / "file.bin").read_bytes() == b"".join(chunks)


@pytest.mark.promises("P33f", "P33h")
def test_a_run_that_breaks_off_leaves_what_was_complete(client, receiver):
    session = Session(client)
    chunks = chunks_of(CHUNK, CHUNK, 100_000)
    members = [session.member(index, chunk) for index, chunk in enumerate(chunks)]
    with client.raw() as connection:
        connection.sendall(session.run_head(sum(map(len, members))) + members[0] + members[1] + members[2][:-1])
        # Before the run has ended, too.
        wait_until(lambda: session.held()["held"] == [[0, 1]], "the complete chunks are stored")
    # The receiver notices the broken connection, and the commit does not wait for it.
    incomplete = session.commit(chunks)
    assert incomplete.problem == "incomplete" and incomplete.json["missing"] == [2]
    with client.raw() as connection, concurrent.futures.ThreadPoolExecutor() as pool:
        connection.sendall(session.run_head(len(members[2])) + members[2][:-1])
        committing = pool.submit(session.commit, chunks)
        # Longer than a commit waits for chunks that have not begun.
        assert not concurrent.futures.wait([committing], timeout=2.5).done
        connection.sendall(members[2][-1:])
        assert committing.result(60).status == 200
    assert (receiver.files / "file.bin").read_bytes() == b"".join(chunks)


@pytest.mark.promises("P33c", "P33g")
def test_a_run_as_a_whole_is_bounded(client):
    session = Session(client)
    member = session.member(0, b"x")
    assert session.put_run([member], **{"Content-Type": "text/plain"}).status == 415
    assert session.put_run([]).problem == "bad-request"
    assert session.put_run([], **{"Content-Length": 64 << 20}).problem == "too-large"
    many = session.put_run([session.member(index, b"x") for index in range(129)])
    assert many.problem == "too-large" and many.json["limit"] == 128
    assert session.held()["held"] == [[0, 127]]
    session.id = "0" * 32
    assert session.put_run([member]).problem == "not-found"


@pytest.mark.promises("P33a")
def test_body_that_stops_short_leaves_nothing(client, receiver):
    session = Session(client)
    data = b"x" * 100_000
    with client.raw() as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in session.chunk_headers(0, data).items())
        connection.sendall(
            f"PUT /v1/uploads/{session.id}/chunks/0 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {client.token}\r\n"
            f"Content-Length: {len(data)}\r\n{head}\r\n".encode() + data[:50_000])
    assert session.held()["held"] == []
    assert session.put(0, data).status == 201
    assert session.commit([data]).status == 200


@pytest.mark.promises("P47")
def test_two_commits_at_once_publish_once(client, receiver):
    session = Session(client)
    data = b"x" * CHUNK
    session.put(0, data)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(session.commit, [data]) for _ in range(8)]]
    receipts = {answer.body for answer in answers if answer.status == 200}
    assert len(receipts) == 1
    assert all(answer.status == 200 or answer.problem == "conflict" for answer in answers), answers
    assert receiver.stats()["files_published"] == 1
    assert session.commit([data], name="other-name").problem == "conflict"
    assert receiver.published() == {"file.bin": CHUNK}


@pytest.mark.promises("P19", "P57")
def test_idempotency_key_used_twice(client, receiver):
    first = Session(client)
    again = Session(client, key=first.key, document=first.document)
    assert again.opening.status == 200 and again.id == first.id
    other = Session(client, "other.bin", key=first.key)
    assert other.opening.problem == "idempotency-mismatch"

    nonce = os.urandom(32)

    def whole(data, name="whole.bin"):
        return client.request("PUT", f"/v1/files/{name}", {
            "Idempotency-Key": '"once"', "X-Chunk-SHA256": hashlib.sha256(data).hexdigest(),
            "X-Chunk-CRC32C": f"{crc32c(data):08x}", "X-Chunk-Size": len(data), "X-Chunk-Nonce": nonce.hex(),
            "X-Chunk-HMAC": tag(client.token, nonce, "once", 0, data)}, data)

    published = whole(b"first")
    assert published.status == 201
    assert whole(b"first").json == published.json
    assert whole(b"second").problem == "idempotency-mismatch"
    assert whole(b"first", "elsewhere.bin").problem == "idempotency-mismatch"
    assert (receiver.files / "whole.bin").read_bytes() == b"first"
    assert set(receiver.published()) == {"whole.bin"}


@pytest.mark.promises("P3")
def test_nobody_without_a_token(client, receiver):
    session = Session(client)
    for token in ("wrong", "x" * 64, client.token + "x"):
        answer = client.request("GET", f"/v1/uploads/{session.id}", token=token)
        assert answer.problem == "unauthorized" and "www-authenticate" in answer.headers


@pytest.mark.parametrize("document", [
    b"", b"not json", b"[]", b"{}", b'{"name": 5}', b"\xff\xfe", b"{" * 60_000, b'{"name": "a", "chunk_size": -1}',
    b'{"name": "a", "chunk_size": 1e400, "nonce": "00"}', b"x" * 100_000,
])
@pytest.mark.promises("P6")
def test_nonsense_in_a_body(client, receiver, document):
    answer = client.post("/v1/uploads", document, {"Idempotency-Key": '"nonsense"'})
    assert 400 <= answer.status < 500, answer
    assert answer.problem
    assert Session(client).opening.status == 201, "the receiver goes on"


def test_nonsense_instead_of_http(client, receiver):
    for nonsense in (b"\x00" * 100, b"GET\r\n\r\n", b"PUT /v1/files/x HTTP/9.9\r\n\r\n", b"A" * 100_000):
        with client.raw() as connection:
            try:
                connection.sendall(nonsense)
                connection.settimeout(5)
                connection.recv(1000)
            except OSError:
                pass
    assert Session(client).opening.status == 201, "the receiver goes on"


@pytest.mark.promises("P52", "P53")
def test_abort_frees_the_session(client, receiver):
    session = Session(client)
    session.put(0, b"data")
    assert client.request("DELETE", f"/v1/uploads/{session.id}").status == 204
    assert session.put(0, b"data").status in (404, 410)
    assert client.request("DELETE", f"/v1/uploads/{session.id}").status in (404, 410)
    assert receiver.published() == {}


@pytest.mark.promises("P24")
def test_session_survives_kill_of_the_receiver(client, receiver):
    chunks = chunks_of(CHUNK, CHUNK, 5)
    session = Session(client)
    session.put(0, chunks[0])
    session.put(2, chunks[2])
    receiver.kill()
    receiver.start()
    assert session.held()["held"] == [[0, 0], [2, 2]]
    session.put(1, chunks[1])
    assert session.commit(chunks).status == 200
    receiver.kill()
    receiver.start()
    assert session.held()["state"] == "committed"
    assert (receiver.files / "file.bin").read_bytes() == b"".join(chunks)
