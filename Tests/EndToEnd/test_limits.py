"""What stands before a server bounds the length of requests: nginx with its default of 1 MB before a receiver."""

import pytest

from form_servers import Nginx
from harness import sha256, write_random
from test_doctor import diagnose

MIB = 1 << 20


@pytest.fixture
def front(folder, authority, new_receiver):
    """nginx as Debian configures it, but for what is said of its length of bodies, before a receiver."""
    receiver = new_receiver()
    nginx = Nginx(folder / "nginx", f"""
    location / {{
      proxy_pass https://127.0.0.1:{receiver.port}; proxy_http_version 1.1; proxy_request_buffering off;
      proxy_ssl_protocols TLSv1.3;
    }}
""", authority.issue("front"))
    nginx.receiver = receiver
    yield nginx.start()
    left = nginx.close()
    assert not left, "\n".join(left)


@pytest.mark.promises("DE110")
def test_a_file_passes_a_proxys_limit_in_shorter_requests(front, new_mount, authority):
    """Regression: files behind nginx's default limit had failed for good, with no word of client_max_body_size."""
    receiver = front.receiver
    mount = new_mount(
        None, to=f"https://127.0.0.1:{front.port}", token_file=receiver.token_file, ca=authority.certificate)
    # Requests grow beyond it while it is sent.
    write_random(mount.root / "large.mov", 64 * MIB, seed=1)
    write_random(mount.root / "one request.mov", 2 * MIB, seed=2)
    mount.wait_all()
    for name in ("large.mov", "one request.mov"):
        assert sha256(receiver.files / name) == sha256(mount.root / name), name
    assert "client_max_body_size" in mount.program.log and "bytes_max=" in mount.program.log
    # The next one begins with what is known.
    refused = front.log.count("client intended to send too large body")
    write_random(mount.root / "next.mov", 64 * MIB, seed=3)
    mount.wait_all()
    assert front.log.count("client intended to send too large body") == refused <= 12


@pytest.mark.promises("DE111a")
def test_the_doctor_sends_requests_as_long_as_the_mounts(front, authority):
    """Regression: doctor's chunk had exactly the 1 MiB that passes; a --chunk-size below it was a problem."""
    receiver = front.receiver
    arguments = ["--to", f"https://127.0.0.1:{front.port}", "--ca", authority.certificate, "--token-file", receiver.token_file]
    diagnosis = diagnose(*arguments)
    finding = diagnosis.finding("limits")
    assert finding["level"] == "warning" and "client_max_body_size" in finding["message"], diagnosis.text
    # A chunk of 1 MiB passes, but not several of them with their heads.
    assert finding["facts"]["request_bytes_max"] == MIB // 2 and "--chunk-size 524288" in finding["advice"]
    assert "--chunk-size 1048576" in diagnosis.text
    short = diagnose(*arguments, "--chunk-size", "512KiB", "--no-throughput")
    assert short.finding("limits")["level"] == "ok" and short.finding("session")["level"] == "ok", short.text


@pytest.mark.promises("DE111b")
@pytest.mark.parametrize("refused, fact, lost", [
    ("/chunks$", "runs", "Large files"), ("^/v1/files$", "bundles", "Small files")], ids=["runs", "bundles"])
def test_the_doctor_sends_several_things_in_one_request_as_the_mount_does(
        folder, authority, new_receiver, refused, fact, lost):
    """Regression: it sent single chunks and single files alone, and such a request was refused to the first captures."""
    receiver = new_receiver()
    passes = f"proxy_pass https://127.0.0.1:{receiver.port}; proxy_http_version 1.1; proxy_ssl_protocols TLSv1.3;"
    nginx = Nginx(folder / "nginx", f"""
    client_max_body_size 100m;
    location ~ {refused} {{ return 403; }}
    location / {{ {passes} }}
""", authority.issue("front"))
    nginx.start()
    try:
        to = f"https://127.0.0.1:{nginx.port}"
        arguments = ["--to", to, "--ca", authority.certificate, "--token-file", receiver.token_file, "--no-throughput"]
        diagnosis = diagnose(*arguments)
        finding = diagnosis.finding("limits")
        assert finding["level"] == "warning" and finding["facts"] == {fact: False}, diagnosis.text
        assert lost in finding["advice"] and "/v1/" in finding["advice"]
        # It is no problem: captures arrive.
        assert diagnosis.code == 0 and diagnosis.finding("session")["level"] == "ok", diagnosis.text
        # Nothing is left of it but the test file, which is there once.
        assert len(receiver.published()) == 1 and not list((receiver.root / ".uploads" / "sessions").glob("*/data"))
    finally:
        nginx.close()


@pytest.mark.promises("DE111b")
def test_the_doctor_finds_how_long_requests_with_several_chunks_may_be(folder, authority, new_receiver):
    receiver = new_receiver()
    nginx = Nginx(folder / "nginx", f"""
    client_max_body_size 100m;
    location ~ /chunks$ {{
      client_max_body_size 3m; proxy_pass https://127.0.0.1:{receiver.port}; proxy_http_version 1.1; proxy_ssl_protocols TLSv1.3;
    }}
    location / {{
      proxy_pass https://127.0.0.1:{receiver.port}; proxy_http_version 1.1; proxy_ssl_protocols TLSv1.3;
    }}
""", authority.issue("front"))
    nginx.start()
    try:
        diagnosis = diagnose(
            "--to", f"https://127.0.0.1:{nginx.port}", "--ca", authority.certificate, "--token-file", receiver.token_file)
        finding = diagnosis.finding("limits")
        assert finding["level"] == "warning" and finding["facts"]["request_bytes_max"] == 2 * MIB, diagnosis.text
    finally:
        nginx.close()


@pytest.mark.promises("DE111b")
def test_a_receiver_behind_nothing_takes_all_that_the_doctor_sends(receiver):
    diagnosis = diagnose(
        "--to", receiver.url, "--ca", receiver.ca, "--token-file", receiver.token_file, "--no-throughput")
    assert diagnosis.finding("limits")["level"] == "ok" and diagnosis.code == 0, diagnosis.text
    stats = receiver.stats()
    assert stats["runs_received"] >= 1 and stats["bundles_received"] == 1, stats
    assert len(receiver.published()) == 1


NGINX_SAYS = b"<html><head><title>413 Request Entity Too Large</title></head><body><center>nginx</center></body></html>"


@pytest.mark.promises("DE111a")
@pytest.mark.parametrize("protocol, parts", [("tus", None), ("tus", "joined"), ("draft", None)], ids=["tus", "tus-parts", "draft"])
def test_the_doctor_tries_a_long_request_where_chunks_follow_one_another(new_liar, protocol, parts):
    """Regression: there the limit was found out by the first capture."""
    server = new_liar(protocol, None, parts=parts)
    server.gateway = lambda _, body: (413, {"Content-Type": "text/html"}, NGINX_SAYS) if len(body) > 3 * MIB else None
    to, options = server.options
    diagnosis = diagnose("--to", to, *options)
    finding = diagnosis.finding("limits")
    assert finding["level"] == "warning" and "client_max_body_size" in finding["message"], diagnosis.text
    assert 3 * MIB / 2 <= finding["facts"]["request_bytes_max"] <= 3 * MIB
    assert diagnosis.finding("session")["level"] == "ok" and diagnosis.code == 0, diagnosis.text
    # Of what was begun for it nothing is published, and nothing is left.
    assert [name.startswith("uploadfs-doctor-") and name.endswith(".txt") for name in server.published] == [True]
    ended = [upload.get("complete", len(upload["bytes"]) == upload.get("length")) for upload in server.uploads.values()]
    assert all(ended), server.uploads
    server.gateway = None
    well = diagnose("--to", to, *options)
    assert well.finding("session")["level"] == "ok" and well.finding("limits")["level"] != "warning", well.text


def test_where_uploads_cannot_be_ended_the_doctor_begins_none(new_liar):
    server = new_liar("tus", None, parts="joined")
    server.gateway = lambda request, body: (
        204, {"Tus-Version": "1.0.0", "Tus-Extension": "creation,concatenation,creation-with-upload"}
    ) if request.command == "OPTIONS" else None
    diagnosis = diagnose("--to", server.options[0])
    finding = diagnosis.finding("session")
    assert finding["level"] == "skipped" and "cannot end uploads" in finding["message"], diagnosis.text
    assert len(server.uploads) == 1, "the test file's"
