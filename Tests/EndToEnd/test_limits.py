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
    """Regression (DS6): files behind nginx's default limit had failed for good, with no word of client_max_body_size."""
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


@pytest.mark.promises("DE111")
def test_the_doctor_sends_requests_as_long_as_the_mounts(front, authority):
    """Regression (DS6, DS12): doctor's chunk had exactly the 1 MiB that passes; a --chunk-size below it was a problem."""
    receiver = front.receiver
    arguments = ["--to", f"https://127.0.0.1:{front.port}", "--ca", authority.certificate, "--token-file", receiver.token_file]
    diagnosis = diagnose(*arguments)
    finding = diagnosis.finding("limits")
    assert finding["level"] == "warning" and "client_max_body_size" in finding["message"], diagnosis.text
    assert finding["facts"]["request_bytes_max"] == MIB and "--chunk-size 1048576" in finding["advice"]
    short = diagnose(*arguments, "--chunk-size", "512KiB", "--no-throughput")
    assert short.finding("limits")["level"] == "ok" and short.finding("session")["level"] == "ok", short.text
