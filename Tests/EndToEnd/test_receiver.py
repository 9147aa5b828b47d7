"""Settings of the receiver: what its command line says of where files go, and for how long uploads are kept."""

import http.client
import itertools
import json
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from certificates import Authority
from harness import RECEIVER_TOOL, SOON, clean_environment, wait_until, write_random
from protocol_client import ProtocolClient, Session, tag
from small_machine import Clock


def test_files_root_is_where_the_development_token_publishes(new_receiver, new_mount, folder):
    elsewhere = folder / "films" / "new"
    receiver = new_receiver("--files-root", elsewhere)
    assert f"files arrive in {elsewhere}" in receiver.program.output
    mount = new_mount(receiver)
    (mount.root / "day").mkdir()
    (mount.root / "day" / "a.mov").write_bytes(b"film")
    mount.wait_all()
    assert (elsewhere / "day" / "a.mov").read_bytes() == b"film"
    assert not receiver.files.exists()


def test_it_says_its_version():
    """Regression: it had no --version."""
    done = subprocess.run([str(RECEIVER_TOOL), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON)
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"uploadfs-receiver \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(\+changes)?\))?", first), done
    assert re.search(r"\bOpenSSL \d+\.\d+", second), done


def test_a_service_manager_is_told_and_its_watchdog_hears_of_the_receiver(new_receiver, folder, monkeypatch):
    path = str(folder / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(SOON)
        receiver = new_receiver()
        assert listener.recv(4096).decode() == f"READY=1\nSTATUS=listening on 127.0.0.1:{receiver.port}\n"
        for _ in range(3):
            assert listener.recv(4096) == b"WATCHDOG=1\n"
        receiver.program.signal(signal.SIGTERM)
        while (said := listener.recv(4096)) == b"WATCHDOG=1\n":
            pass
        assert said == b"STOPPING=1\nSTATUS=letting requests finish\n"
        assert receiver.program.wait() == 0


def test_files_root_goes_with_no_token_file_of_its_own(folder):
    done = subprocess.run(
        [str(RECEIVER_TOOL), "serve", "--root", folder, "--listen", "127.0.0.1:0", "--certificate", "c", "--key", "k",
         "--token-file", "t", "--files-root", folder / "files"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON, env=clean_environment())
    assert done.returncode == 64 and "--files-root" in done.stderr


@pytest.mark.promises("P31")
def test_session_max_age_is_how_long_an_upload_may_stand_still(new_receiver):
    receiver = new_receiver("--session-max-age", "2s")
    client, begun = ProtocolClient(receiver), int(time.time())
    session = Session(client)
    assert begun + 2 <= session.opening.json["expires_at"] <= time.time() + 3
    # Another one is not kept by it.
    wait_until(
        lambda: client.request("GET", f"/v1/uploads/{session.id}").problem == "session-expired", "the upload has ended")
    assert session.put(0, b"x").problem == "session-expired"


def test_an_upload_may_stand_still_for_a_week(receiver):
    begun = int(time.time())
    expires = Session(ProtocolClient(receiver)).opening.json["expires_at"]
    assert begun + 604_800 <= expires <= time.time() + 604_801


def operator(receiver, *arguments):
    command = [str(RECEIVER_TOOL), arguments[0], "--root", str(receiver.root), *map(str, arguments[1:])]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON, env=clean_environment())


def held_session(client, name, durable=False):
    session = Session(client, name, size=1 << 20)
    assert session.put(0, b"x" * session.chunk_size).status == 201
    if durable:
        assert client.request("GET", f"/v1/uploads/{session.id}?durable=1").json["durable"] is True
    return session


def test_the_operator_sees_and_ends_what_machines_have_left(new_receiver):
    """Regression: a quota was held by uploads of a machine that was gone, which no operator could see or end."""
    receiver = new_receiver()
    client = ProtocolClient(receiver)
    kept, other = held_session(client, "kept.mov", durable=True), held_session(client, "other.mov")
    seen = {session["id"]: session for session in json.loads(operator(receiver, "sessions", "--json").stdout)}
    assert seen.keys() == {kept.id, other.id}
    assert seen[kept.id] | {"idle_seconds": 0} == {
        "id": kept.id, "root": str(receiver.files), "user": 1, "name": "kept.mov", "size": 1 << 20, "held_bytes": 256 << 10,
        "idle_seconds": 0, "relied_upon": True}
    assert seen[other.id]["relied_upon"] is False
    text = operator(receiver, "sessions").stdout
    assert len(text.splitlines()) == 2 and "kept" in text
    done = operator(receiver, "end", kept.id, "0" * 32)
    assert done.returncode == 1 and f"{kept.id}: ended" in done.stdout and "no such upload session" in done.stdout, done
    assert client.request("GET", f"/v1/uploads/{kept.id}").problem == "not-found"
    wait_until(lambda: not (receiver.root / ".uploads/sessions" / kept.id).exists(), "it is removed")
    assert "ended by the operator" in receiver.program.log
    # Nothing else reaches it: the folder of the state is its user's alone.
    assert (receiver.root / ".uploads").stat().st_mode & 0o077 == 0
    # What a kill leaves does not keep the next one from listening; where none runs, it says so.
    receiver.kill()
    done = operator(receiver, "sessions")
    assert done.returncode == 24 and "no receiver runs" in done.stderr, done
    receiver.start()
    assert [session["id"] for session in json.loads(operator(receiver, "sessions", "--json").stdout)] == [other.id]


def test_the_operator_tells_two_users_of_one_root_apart(new_receiver, folder):
    """Regression: the list said where an upload would be published, and not whose it was."""
    authority = Authority(folder / "authority")
    receiver = new_receiver(start=False, certificate=authority.issue("receiver"), ca=authority.certificate)
    tokens = ("first-" + "1" * 32, "second-" + "2" * 32)
    receiver.new_tokens = "".join(f"files {token}\n" for token in tokens)
    receiver.start()
    held = []
    for token in tokens:
        client = ProtocolClient(receiver)
        client.token = token
        held.append(held_session(client, "a.mov").id)
    users = {session["id"]: session["user"] for session in json.loads(operator(receiver, "sessions", "--json").stdout)}
    assert users == {held[0]: 1, held[1]: 2}
    text = operator(receiver, "sessions").stdout
    assert "of user 1" in text and "of user 2" in text and not any(token in text for token in tokens), text


def test_the_log_says_whose_a_line_is(new_receiver, folder):
    """Regression: two users of one root published files of one name, and nothing said whose they were."""
    authority = Authority(folder / "authority")
    receiver = new_receiver("--log-level", "debug", start=False, certificate=authority.issue("receiver"), ca=authority.certificate)
    tokens = ("first-" + "1" * 32, "second-" + "2" * 32)
    receiver.new_tokens = f"one {tokens[0]}\ntwo {tokens[1]} also=third-{'3' * 32}\n"
    receiver.start()
    for number, token in enumerate((tokens[0], "third-" + "3" * 32), 1):
        client = ProtocolClient(receiver)
        client.token = token
        ended, session = held_session(client, "ended.mov"), held_session(client, f"of {number}.mov")
        assert session.commit([b"x" * session.chunk_size]).status == 200
        assert operator(receiver, "end", ended.id).returncode == 0
        assert client.request("GET", f"/v1/uploads/{ended.id}").status == 404
        log = receiver.program.log.splitlines()
        for words in (f'published "of {number}.mov"', f"{ended.id} is ended by the operator", f'"/v1/uploads/{ended.id}": 404'):
            lines = [line for line in log if words in line]
            assert lines and all(f" user={number} " in line for line in lines), (words, lines)
    assert not any(token in receiver.program.log for token in tokens)


@pytest.mark.parametrize("expired", [True, False])
def test_a_certificate_that_has_ended_is_said(new_receiver, folder, expired):
    """Regression: it was taken without a word."""
    authority = Authority(folder / "authority")
    operators_token = folder / "operator"
    operators_token.write_text("o" * 40)
    operators_token.chmod(0o600)
    receiver = new_receiver(
        "--operator-token-file", operators_token, certificate=authority.issue("receiver", expired=expired), ca=authority.certificate)
    assert ("the certificate, or one above it, ended" in receiver.program.log) == expired, receiver.program.log
    if not expired:
        metrics = ProtocolClient(receiver).request("GET", "/metrics", token="o" * 40).body.decode()
        assert "uploadfs_receiver_certificate_end_timestamp_seconds 4102358400" in metrics, metrics


@pytest.mark.promises("S72f")
def test_a_session_that_a_client_relies_upon_never_ends_by_itself(new_receiver):
    """Regression: it was deleted with the only copy after --session-max-age, also over restarts."""
    receiver = new_receiver("--session-max-age", "2s")
    client = ProtocolClient(receiver)
    kept, other = held_session(client, "kept.mov", durable=True), held_session(client, "other.mov")
    for _ in range(2):
        wait_until(
            lambda: client.request("GET", f"/v1/uploads/{other.id}").status != 200, "the other one has ended")
        answer = client.request("GET", f"/v1/uploads/{kept.id}")
        assert answer.status == 200 and answer.json["held"] == [[0, 0]] and answer.json["expires_at"] > time.time()
        receiver.stop()
        receiver.start()
        client = ProtocolClient(receiver)
    assert client.request("GET", f"/v1/uploads/{kept.id}").status == 200


@pytest.mark.promises("S72h")
@pytest.mark.parametrize("days", [8, -8])
def test_a_clock_that_is_set_by_days_ends_no_session_that_a_client_relies_upon(new_receiver, folder, days):
    """Regression: a start with the clock eight days ahead deleted the only copy, without a word."""
    clock = Clock(folder, "receiver")
    receiver = new_receiver("--session-max-age", "2s", prefix=clock.prefix)
    client = ProtocolClient(receiver)
    kept = held_session(client, "kept.mov", durable=True)
    for is_running in (False, True):
        if not is_running:
            receiver.stop()
        clock.jump(days * 86_400)
        if not is_running:
            receiver.start()
            client = ProtocolClient(receiver)
        other = held_session(client, "other.mov")
        wait_until(lambda other=other: client.request("GET", f"/v1/uploads/{other.id}").status != 200, "the other one has ended")
        wait_until(lambda other=other: other.id in receiver.program.log, "the log says that it has")
        answer = client.request("GET", f"/v1/uploads/{kept.id}")
        assert answer.status == 200 and answer.json["held"] == [[0, 0]], answer


@pytest.mark.promises("P50", "S72h")
def test_that_an_upload_was_published_which_a_client_relied_upon_stays_known(new_receiver):
    """Regression: a mount that had been away for --session-max-age heard that its recording was lost, which was published whole."""
    receiver = new_receiver("--session-max-age", "2s")
    client = ProtocolClient(receiver)
    kept, other = held_session(client, "kept.mov", durable=True), held_session(client, "other.mov")
    receipts = {}
    for session in (kept, other):
        receipts[session.id] = session.commit([b"x" * session.chunk_size]).json
    for _ in range(2):
        wait_until(lambda: client.request("GET", f"/v1/uploads/{other.id}").status != 200, "the other one is forgotten")
        answer = client.request("GET", f"/v1/uploads/{kept.id}")
        assert answer.status == 200 and answer.json["state"] == "committed" and answer.json["receipt"] == receipts[kept.id], answer
        assert kept.commit([b"x" * kept.chunk_size]).json == receipts[kept.id]
        receiver.stop()
        receiver.start()
        client = kept.client = ProtocolClient(receiver)


def test_durable_max_bounds_what_is_kept(new_receiver):
    receiver = new_receiver("--durable-max", "300kB")
    client = ProtocolClient(receiver)
    held_session(client, "kept.mov", durable=True)
    other = held_session(client, "other.mov")
    answer = client.request("GET", f"/v1/uploads/{other.id}?durable=1")
    assert answer.status == 507 and answer.problem == "quota-exceeded" and "--durable-max" in answer.json["detail"], answer


def test_it_listens_at_every_address_that_is_named(new_receiver):
    """Regression: of two --listen the last one won without a word."""
    receiver = new_receiver("--listen", "[::1]:0")
    lines = wait_until(
        lambda: len(lines := [line for line in receiver.program.output if line.startswith("listening")]) == 2 and lines,
        receiver.program.output)
    hosts = [line.split("//")[1].rpartition(":") for line in lines]
    assert [host for host, _, _ in hosts] == ["127.0.0.1", "[::1]"], receiver.program.output
    for host, _, port in hosts:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SOON).close()


def test_one_address_twice_is_refused(folder):
    done = subprocess.run(
        [RECEIVER_TOOL, "serve", "--root", folder / "root", "--development", "--listen", "127.0.0.1:8443", "--listen", "127.0.0.1:8443"],
        capture_output=True, text=True, env=clean_environment(), timeout=SOON)
    assert done.returncode == 64 and "names one address twice" in done.stderr, done.stderr


@pytest.mark.parametrize("arguments", [
    ["serve", "--development", "--listen", "127.0.0.1:0", "--root"], ["sessions", "--root"], ["end", "0123", "--root"]])
def test_a_root_that_is_no_text_is_refused(folder, arguments):
    """Regression: the root became another folder, with U+FFFD in its name; `sessions` and `end` asked the receiver of that."""
    place = bytes(folder) + b"/root-\xff"
    done = subprocess.run(
        [RECEIVER_TOOL, *arguments, place], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_environment(), timeout=SOON)
    number = len(arguments) + 1
    assert done.returncode == 64 and f"Argument {number} is no UTF-8" in done.stderr, done
    assert not list(folder.glob("root-*"))


@pytest.mark.parametrize("arguments, words", [
    (["--listen", "127.0.0.1"], "--listen needs HOST:PORT"), (["--listen", "127.0.0.1:0", "--certificate", "c", "--key", "k"], "Nobody could upload"),
    (["--listen", "127.0.0.1:0", "--development", "--certificate", "c", "--key", "k"], "Give either --certificate"),
    (["--listen", "127.0.0.1:0", "--certificate", "c"], "go together"),
    (["--listen", "0.0.0.0:0", "--development"], "for this machine only"),
    (["--listen", "127.0.0.1:0", "--development", "--session-max-age", "0"], "--session-max-age must be"),
    (["--listen", "127.0.0.1:0", "--development", "--max-file-size", "0"], "--max-file-size must be positive"),
    (["--listen", "127.0.0.1:0", "--development", "--connections-per-peer", "0"], "--connections-per-peer must be positive"),
    (["--listen", "0.0.0.0:0", "--certificate", "c", "--key", "k", "--open-on-loopback"], "needs a loopback address"),
    (["--listen", "127.0.0.1:0", "--certificate", "c", "--key", "k", "--open-on-loopback", "--token-file", "t"], "takes no tokens"),
])
def test_arguments_that_do_not_go_together_are_refused(folder, arguments, words):
    done = subprocess.run(
        [RECEIVER_TOOL, "serve", "--root", folder / "root", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=clean_environment(), timeout=SOON)
    assert done.returncode == 64 and words in done.stderr, done
    assert not (folder / "root").exists()


@pytest.mark.parametrize("path", [".development", "shortcut", "shortcut/below"])
def test_a_root_that_leads_to_the_receivers_key_is_refused(folder, path):
    """Regression: only the plain name was; by another path a user published into the folder of the key."""
    root = folder / "root"
    (root / ".development").mkdir(parents=True)
    (root / "shortcut").symlink_to(".development")
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"{root / path} {'t' * 40}\n")
    done = subprocess.run(
        [RECEIVER_TOOL, "serve", "--root", root, "--listen", "127.0.0.1:0", "--development", "--token-file", tokens],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_environment(), timeout=SOON)
    assert done.returncode not in (0, 64) and "the receiver's own key" in done.stderr, done


def test_users_are_numbered_by_their_line_also_beside_a_development_token(folder, new_receiver):
    """Regression: the development token was user 1, and the others one more than their line."""
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"first {'a' * 40}\nsecond {'b' * 40}\n")
    receiver = new_receiver("--token-file", tokens)
    client = ProtocolClient(receiver)
    for number, token in enumerate(["a" * 40, "b" * 40, receiver.token], 1):
        client.token = token
        session = held_session(client, f"of {number}.mov")
        assert session.commit([b"x" * session.chunk_size]).status == 200
        lines = [line for line in receiver.program.log.splitlines() if f'published "of {number}.mov"' in line]
        assert lines and all(f" user={number} " in line for line in lines), lines


def test_a_stop_answers_what_it_took(new_receiver):
    """Regression: a chunk that followed the last answer of its connection was taken whole, and not answered."""
    receiver = new_receiver()
    client = ProtocolClient(receiver)
    session = Session(client, chunk_size=256 << 10)
    answered, numbers, began = set(), itertools.count(), threading.Barrier(13)
    data = b"x" * session.chunk_size
    fields = session.chunk_headers(0, data)

    def send():
        connection = client.raw()
        began.wait()
        try:
            for index in numbers:
                fields_here = fields | {"X-Chunk-HMAC": tag(client.token, session.nonce, session.id, index, data)}
                lines = [f"PUT /v1/uploads/{session.id}/chunks/{index} HTTP/1.1", "Host: here", f"Authorization: Bearer {client.token}"]
                lines += [f"{name}: {value}" for name, value in fields_here.items()]
                connection.sendall("\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data)
                answer = http.client.HTTPResponse(connection)
                answer.begin()
                answer.read()
                assert answer.status == 201
                answered.add(index)
                if answer.getheader("Connection") == "close":
                    return
        except (OSError, http.client.HTTPException):
            return

    senders = [threading.Thread(target=send) for _ in range(12)]
    for sender in senders:
        sender.start()
    began.wait()
    wait_until(lambda: len(answered) > 100, "100 chunks")
    receiver.stop()
    for sender in senders:
        sender.join(timeout=SOON)
        assert not sender.is_alive()
    receiver.start()
    client = ProtocolClient(receiver)
    held = client.request("GET", f"/v1/uploads/{session.id}").json["held"]
    taken = {index for first, last in held for index in range(first, last + 1)}
    assert taken >= answered
    assert taken == answered, sorted(taken - answered)


def test_files_that_wait_for_their_quota_say_so_in_the_summary(new_receiver, new_mount, folder):
    """Regression: the summary had no error and no next attempt."""
    authority = Authority(folder / "authority")
    receiver = new_receiver(start=False, certificate=authority.issue("receiver"), ca=authority.certificate)
    receiver.new_tokens = f"files {'t' * 40} quota=1MB\n"
    receiver.start()
    mount = new_mount(receiver, "--chunk-size", "256KiB")
    write_random(mount.root / "a.mov", 3 << 20)
    (mount.root / "small").write_bytes(b"x")
    mount.wait_for("small", "complete")

    def waits():
        summary = mount.summary()
        return summary if summary["last_error"] and summary["last_error"]["code"] == "insufficient-storage" else None

    summary = wait_until(waits, lambda: mount.summary())
    assert "quota" in summary["last_error"]["message"] and summary["files"]["waiting"] == 1, summary
    assert summary["next_attempt_at"], summary
    assert mount.status("a.mov")["last_error"] == summary["last_error"]
    assert "quota" in mount.tool("status").stdout
    # A higher quota lets it through, without a restart of either side.
    (receiver.root / "tokens").write_text(f"files {'t' * 40} quota=1GB\n")
    receiver.program.signal(signal.SIGHUP)
    mount.wait_all()
