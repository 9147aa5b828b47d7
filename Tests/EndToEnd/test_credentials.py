"""Who uploads, and on which way: passwords, tokens that end, certificates, proxies. None of the secrets is shown."""

import os
import signal
import ssl

import pytest

from form_servers import PASSWORD, Nginx
from harness import MOUNT_TOOL, SOON, Program, clean_environment, sha256, wait_until, write_random
from promises import installed
from proxies import PASSWORD as PROXY_PASSWORD
from proxies import USER as PROXY_USER
from proxies import Microsocks, Tinyproxy
from test_form import MIB, new_form_mount  # noqa: F401 (fixtures)
from throttle import ThrottlingProxy


@pytest.fixture
def new_proxy(folder):
    made = []

    def make(kind):
        made.append(kind(folder / kind.name))
        return made[-1].start()

    yield make
    left = [problem for proxy in made for problem in proxy.close()]
    assert not left, "\n".join(left)


@pytest.fixture(params=[Tinyproxy, Microsocks], ids=["http", "socks"])
def proxy(request, new_proxy):
    return new_proxy(request.param)


# Proxies


@pytest.mark.promises("DE99", "DE102a")
def test_uploads_go_through_a_proxy(proxy, new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver, "--proxy", proxy.url, "--proxy-auth-file", proxy.password_file, "--log-level", "trace")
    write_random(mount.root / "a.mov", 9 * MIB)
    mount.wait_all()
    assert sha256(receiver.files / "a.mov") == sha256(mount.root / "a.mov")
    assert proxy.was_used
    assert PROXY_PASSWORD not in mount.program.log


@pytest.mark.promises("DE99")
def test_a_form_is_reached_through_a_proxy(new_proxy, new_form, new_form_mount, authority):  # noqa: F811
    proxy = new_proxy(Tinyproxy)
    form = new_form(identity=authority.issue("form"))  # noqa: F811
    mount = new_form_mount(
        form, "--proxy", proxy.url, "--proxy-auth-file", proxy.password_file, ca=authority.certificate)
    write_random(mount.root / "a.mov", 9 * MIB)
    mount.wait_all()
    assert sha256(form.files / "a.mov") == sha256(mount.root / "a.mov")
    assert proxy.was_used


@pytest.mark.promises("DE100")
def test_exceptions_are_reached_directly(proxy, new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(
        receiver, "--proxy", proxy.url, "--proxy-auth-file", proxy.password_file, "--no-proxy",
        "example.org,127.0.0.1")
    write_random(mount.root / "a.mov", MIB)
    mount.wait_all()
    assert (receiver.files / "a.mov").exists()
    assert not proxy.was_used


@pytest.mark.promises("DE102a")
def test_a_proxy_that_refuses_is_named(new_proxy, new_receiver, new_mount):
    proxy = new_proxy(Tinyproxy)
    receiver = new_receiver()
    mount = new_mount(receiver, "--proxy", proxy.url)
    (mount.root / "a").write_bytes(b"x")
    error = mount.readings("a", lambda status: status.get("last_error"))[-1]["last_error"]
    assert "proxy" in error["message"] and "407" in error["message"] and "--proxy-auth-file" in error["message"]
    mount.program.kill()


@pytest.mark.promises("DE102b")
def test_the_hop_to_a_proxy_has_tls_1_3_unless_it_is_said_otherwise(new_proxy, new_form, new_form_mount, authority):  # noqa: F811
    """Regression: the proxy's password went over any TLS that a proxy spoke."""
    proxy = new_proxy(Tinyproxy)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(*authority.issue("proxy"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    form = new_form(identity=authority.issue("form"))  # noqa: F811
    with ThrottlingProxy(proxy.port, tls=old) as front:
        way = ("--proxy", f"https://127.0.0.1:{front.port}", "--proxy-auth-file", proxy.password_file)
        mount = new_form_mount(form, *way, ca=authority.certificate)
        (mount.root / "a.mov").write_bytes(b"x")
        error = mount.readings("a.mov", lambda status: status.get("last_error"))[-1]["last_error"]
        assert "the proxy https://127.0.0.1" in error["message"] and "proxy-tls=1.2" in error["message"], error
        assert not proxy.was_used
        mount.program.kill()
        mount = new_form_mount(form, *way, "--expert", "proxy-tls=1.2", ca=authority.certificate)
        (mount.root / "b.mov").write_bytes(b"y")
        mount.wait_for("b.mov", "complete")
        assert proxy.was_used and mount.summary()["expert_settings"] == ["proxy-tls=1.2"]


@pytest.mark.promises("DE101")
def test_the_environments_proxy_is_left_out_for_this_machine(new_receiver, new_mount):
    receiver = new_receiver()
    mount = new_mount(receiver, environment=clean_environment(https_proxy="http://127.0.0.1:9", NO_PROXY=""))
    (mount.root / "a").write_bytes(b"x")
    mount.wait_all()
    assert (receiver.files / "a").read_bytes() == b"x"


# Certificates


@pytest.fixture
def new_client_server(folder, authority):
    """An nginx that answers only those who show a certificate of `authority`."""
    made = []

    def make():
        made.append(Nginx(folder / "nginx", f"""
    ssl_client_certificate {authority.certificate}; ssl_verify_client on;
    location = / {{ return 204; }}
    location = /upload {{ default_type application/json; return 201 '{{"id": 7}}'; }}
""", authority.issue("server")))
        return made[-1].start()

    yield make
    left = [problem for server in made for problem in server.close()]
    assert not left, "\n".join(left)


@pytest.mark.parametrize("is_one_file", [False, True], ids=["two files", "one file"])
@pytest.mark.promises("DE98")
def test_a_client_certificate_is_shown(new_client_server, new_mount, authority, folder, is_one_file):
    server = new_client_server()
    certificate, key = authority.issue("camera", usage="clientAuth")
    options = ["--client-cert", certificate, "--client-key", key]
    if is_one_file:
        both = folder / "both.pem"
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        both.chmod(0o600)
        options = ["--client-cert", both]
    mount = new_mount(
        None, *options, to=f"form+https://127.0.0.1:{server.port}/upload", ca=authority.certificate)
    (mount.root / "a").write_bytes(b"x")
    mount.wait_all()
    assert mount.status("a")["receipt"]["id"] == "7"


@pytest.mark.promises("DE98")
def test_without_a_client_certificate_the_server_says_so(new_client_server, new_mount, authority):
    server = new_client_server()
    mount = new_mount(None, to=f"form+https://127.0.0.1:{server.port}/upload", ca=authority.certificate)
    (mount.root / "a").write_bytes(b"x")
    error = mount.readings("a", lambda status: status.get("last_error"))[-1]["last_error"]
    assert "400" in error["message"] or "certificate" in error["message"]


# Secret files


@pytest.mark.promises("DE94")
def test_secret_files_of_others_are_refused(folder, new_mount, new_receiver, authority):
    receiver = new_receiver()
    certificate, key = authority.issue("camera", usage="clientAuth")
    secret = folder / "secret"
    secret.write_text("user:zebra\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    (folder / "aws").write_text("[default]\naws_access_key_id = AKIDX\naws_secret_access_key = s\n")
    aws = environment | {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws"), "AWS_CONFIG_FILE": "/dev/null"}
    (folder / "aws").chmod(0o644)
    key.chmod(0o640)
    form, s3 = "form+https://127.0.0.1:9/x", "s3+https://127.0.0.1:9/bucket"
    for number, (to, options, name, environment_of_it) in enumerate([
            (receiver.url, ["--token-file", secret], "secret", environment),
            (form, ["--basic-auth-file", secret], "secret", environment),
            (form, ["--proxy", "http://127.0.0.1:9", "--proxy-auth-file", secret], "secret", environment),
            (form, ["--client-cert", certificate, "--client-key", key], key.name, environment),
            (s3, [], "aws", aws)]):
        for mode in (0o644, 0o640, 0o602):
            secret.chmod(mode)
            mount = new_mount(
                None, *options, to=to, start=False, name=f"{number}-{mode:o}", environment=environment_of_it)
            code, message = mount.start_and_fail()
            assert code != 0
            assert "chmod 600" in message and name in message, message
            assert "zebra" not in message


@pytest.mark.promises("DE96")
def test_a_credential_of_systemd_is_used_without_being_named(new_form, new_mount, folder):  # noqa: F811
    form = new_form()  # noqa: F811
    credentials = folder / "credentials"
    credentials.mkdir()
    (credentials / "basic-auth-file").write_bytes(form.password_file.read_bytes())
    # As systemd shows a file with an access list.
    (credentials / "basic-auth-file").chmod(0o440)
    mount = new_mount(None, to=form.url(), environment=clean_environment(CREDENTIALS_DIRECTORY=credentials))
    (mount.root / "a").write_bytes(b"x")
    mount.wait_all()
    assert (form.files / "a").read_bytes() == b"x"


@pytest.mark.promises("DE95", "SE12")
def test_a_dying_daemon_leaves_no_core_dump(new_form, new_form_mount):  # noqa: F811
    form = new_form()  # noqa: F811
    mount = new_form_mount(form, prefix=["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh"])
    limits = open(f"/proc/{mount.program.process.pid}/limits").read()
    line = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert line.split()[4:6] == ["1", "1"], line
    assert PASSWORD not in open(f"/proc/{mount.program.process.pid}/cmdline").read()


# Tokens that end


@pytest.fixture
def token_form(new_form):  # noqa: F811
    """A form that takes one token, which can be exchanged."""
    form = new_form(  # noqa: F811
        has_password=False, guard='if (!-f "FOLDER/tokens/$http_authorization") { return 401; }')
    tokens = form.folder / "tokens"
    tokens.mkdir()

    def accept(token):
        """From now on only this one."""
        for path in tokens.iterdir():
            path.unlink()
        (tokens / f"Bearer {token}").touch()
        assert form.status_of(f"Bearer {token}") == 200

    form.accept = accept
    return form


def token_command(folder):
    """A command that prints what lies in a file, and counts how often it was run."""
    return f"echo run >>{folder}/runs; cat {folder}/token"


@pytest.mark.promises("DE90")
def test_a_token_that_ends_is_renewed_and_nobody_notices(token_form, new_mount, folder):
    (folder / "token").write_text("first\n")
    token_form.accept("first")
    mount = new_mount(None, "--token-command", token_command(folder), "--log-level", "trace", to=token_form.url())
    write_random(mount.root / "a.mov", 6 * MIB)
    mount.wait_all()
    (folder / "token").write_text("second\n")
    token_form.accept("second")
    assert token_form.status_of("Bearer first") == 401
    for number in range(6):
        write_random(mount.root / f"{number}.mov", 6 * MIB, seed=number)
    mount.wait_all()
    for number in range(6):
        assert sha256(token_form.files / f"{number}.mov") == sha256(mount.root / f"{number}.mov")
        assert mount.status(f"{number}.mov")["attempts"] == 0
    assert (folder / "runs").read_text() == "run\n" * 2
    assert "Bearer" not in mount.program.log and "second" not in mount.program.log.replace("seconds", "").replace("per_second", "")


@pytest.mark.promises("DE89")
def test_a_mount_that_starts_again_goes_on_with_its_token(receiver, new_mount, folder):
    (folder / "token").write_text(receiver.token_file.read_text())
    with ThrottlingProxy(receiver.port, rate=8 * MIB) as proxy:
        mount = new_mount(
            None, "--token-command", token_command(folder), "--chunk-size", "256KiB",
            to=f"https://127.0.0.1:{proxy.port}", ca=receiver.ca)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
        mount.kill()
        proxy.rate = None
        # The same token again: whose the upload is has not changed.
        mount.start()
        mount.wait_all()
    assert sha256(receiver.files / "a.mov") == sha256(mount.root / "a.mov")
    assert mount.status("a.mov")["chunks"]["reused"] >= 10
    assert (folder / "runs").read_text() == "run\n" * 2
    assert receiver.token_file.read_text().strip() not in mount.program.log


@pytest.mark.promises("DE89")
@pytest.mark.parametrize("is_command", [False, True])
def test_a_receivers_token_is_exchanged_and_nothing_is_sent_again(new_receiver, new_mount, folder, authority, is_command):
    """Regression: the receiver has the new token, and the former one as `was=`; the mount asks again at its 401."""
    receiver = new_receiver(name="receiver", certificate=authority.issue("receiver"), ca=authority.certificate)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(receiver.token)
    origin = {"token_file": None} if is_command else {"token_file": token}
    options = ["--token-command", token_command(folder)] if is_command else []
    with ThrottlingProxy(receiver.port, rate=8 * MIB) as proxy:
        mount = new_mount(
            None, *options, "--chunk-size", "256KiB", to=f"https://127.0.0.1:{proxy.port}", ca=receiver.ca, **origin)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
        receiver.stop()
        stored = sum(f.stat().st_size for f in receiver.root.glob(".uploads/sessions/*/journal"))
        assert stored > 0
        new = "the-next-token-the-next-token-the-next"
        receiver.new_tokens = f"files {new} was={receiver.token}\n"
        token.write_text(new + "\n")
        proxy.rate = None
        receiver.start()
        mount.wait_all()
    assert sha256(receiver.files / "a.mov") == sha256(mount.root / "a.mov")
    # Of 64 chunks those that were acknowledged before were not sent again.
    assert receiver.stats()["chunks_received"] <= 64 - 10


def test_a_hang_up_reads_tokens_and_the_certificate_anew(new_receiver, new_mount, folder, authority):
    """Regression: an exchange of a token, or of a certificate, needed a restart. What is bad leaves the old ones, and is said."""
    receiver = new_receiver(name="receiver", certificate=authority.issue("receiver"), ca=authority.certificate)
    tokens, (certificate, key) = receiver.root / "tokens", receiver.certificate
    token, former = folder / "token", receiver.token
    token.touch(mode=0o600)
    token.write_text(former)

    def hang_up(*words):
        start = len(receiver.program.log)
        receiver.program.signal(signal.SIGHUP)
        wait_until(lambda: all(word in receiver.program.log[start:] for word in words), str(words))

    with ThrottlingProxy(receiver.port, rate=8 * MIB) as proxy:
        mount = new_mount(
            None, "--chunk-size", "256KiB", to=f"https://127.0.0.1:{proxy.port}", ca=receiver.ca, token_file=token)
        write_random(mount.root / "a.mov", 16 * MIB)
        mount.readings("a.mov", lambda status: status["resume"]["checkpoint_chunks"] >= 10)
        # Cut off: neither file is used, and the upload goes on.
        tokens.write_text("files tok\n")
        whole = certificate.read_bytes()
        certificate.write_bytes(whole[:-100])
        hang_up("The tokens of before stay in use.", "The certificate of before stays in use.")
        new = "the-next-token-the-next-token-the-next"
        tokens.write_text(f"files {new} was={former}\nother {'o' * 32}\n")
        fresh, fresh_key = authority.issue("fresh")
        certificate.write_bytes(fresh.read_bytes())
        key.write_bytes(fresh_key.read_bytes())
        token.write_text(new + "\n")
        hang_up("the tokens were read anew: 2 users", "the certificate was read anew")
        receiver.token_file.write_text(new + "\n")
        shown = ssl.get_server_certificate(("127.0.0.1", receiver.port))
        assert shown.strip() in fresh.read_text()
        proxy.rate = None
        mount.wait_all()
        assert sha256(receiver.files / "a.mov") == sha256(mount.root / "a.mov")
        # Nothing of 64 chunks went twice.
        assert receiver.stats()["chunks_received"] <= 64
        assert receiver.program.is_running
        # Two users become one: that needs a restart.
        tokens.write_text(f"files {new} also={'o' * 32}\n")
        hang_up("restart it", "The tokens of before stay in use.")
        # After a restart it finds what was begun under either, and what a mount sends that was started with the former one.
        receiver.keeps_tokens = True
        tokens.write_text(f"files {new} was={former}\n")
        receiver.stop()
        receiver.start()
        (mount.root / "b").write_bytes(b"x")
        mount.wait_for("b", "complete")


@pytest.mark.promises("DE92")
def test_a_receiver_that_never_accepted_the_commands_token_is_not_shown_another_one(new_receiver, new_mount, folder):
    receiver = new_receiver(name="receiver")
    (folder / "token").write_text("0123456789abcdef-of-somebody-else-0123456789abcdef\n")
    mount = new_mount(None, "--token-command", token_command(folder), to=receiver.url, ca=receiver.ca)
    (folder / "token").write_text(receiver.token_file.read_text())
    (mount.root / "a").write_bytes(b"x")
    error = mount.wait_for("a", "failed")["last_error"]
    assert error["code"] == "unauthorized" and "--token-command" in error["message"]
    assert (folder / "runs").read_text() == "run\n"


@pytest.mark.promises("DE136")
def test_a_token_file_that_is_put_right_works_without_a_restart(new_receiver, new_mount, folder, authority):
    """Regression: what was sent with the right token still had the tags of the wrong one, and failed for that."""
    receiver = new_receiver(name="receiver", certificate=authority.issue("receiver"), ca=authority.certificate)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef-of-somebody-else-0123456789abcdef\n")
    mount = new_mount(None, "--chunk-size", "256KiB", token_file=token, to=receiver.url, ca=receiver.ca)
    (mount.root / "a").write_bytes(b"x")
    error = mount.wait_for("a", "failed")["last_error"]
    assert error["code"] == "unauthorized" and "uploadfs-mount retry" in error["message"]
    token.write_text(receiver.token + "\n")
    (mount.root / "b").write_bytes(b"y")
    write_random(mount.root / "c.mov", 2 * MIB)
    mount.wait_for("b", "complete")
    mount.wait_for("c.mov", "complete")
    mount.say("retry", "a")
    mount.wait_for("a", "complete")
    assert sha256(receiver.files / "c.mov") == sha256(mount.root / "c.mov")
    # The file is looked at as it was at the start.
    token.write_text("0123456789abcdef-of-somebody-else-0123456789abcdef\n")
    token.chmod(0o644)
    receiver.stop()
    receiver.new_tokens = f"files {'n' * 32}\n"
    receiver.start()
    (mount.root / "d").write_bytes(b"z")
    mount.readings("d", lambda status: "chmod 600" in ((status.get("last_error") or {}).get("message") or ""))


@pytest.mark.promises("DE90")
def test_a_token_file_that_somebody_replaces_is_read_again(token_form, new_mount, folder):
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text("first\n")
    token_form.accept("first")
    mount = new_mount(None, token_file=token, to=token_form.url())
    (mount.root / "a").write_bytes(b"x")
    mount.wait_all()
    # Too late: a file is refused, and tried again when a user asks for it.
    token_form.accept("second")
    (mount.root / "b").write_bytes(b"x")
    assert mount.wait_for("b", "failed")["last_error"]["code"] == "unauthorized"
    token.write_text("second\n")
    mount.say("retry", "b")
    mount.wait_for("b", "complete")
    # In time: no file is held up.
    token.write_text("third\n")
    token_form.accept("third")
    write_random(mount.root / "c.mov", 6 * MIB)
    assert mount.wait_for("c.mov", "complete")["attempts"] == 0


@pytest.mark.promises("DE90")
def test_a_password_file_that_somebody_replaces_is_read_again(new_form, new_mount):  # noqa: F811
    form = new_form()  # noqa: F811
    mount = new_mount(None, "--basic-auth-file", form.password_file, to=form.url())
    (mount.root / "a").write_bytes(b"x")
    mount.wait_all()
    form.set_password("another one")
    (mount.root / "b").write_bytes(b"x")
    assert mount.wait_for("b", "complete")["attempts"] == 0
    assert "another one" not in mount.program.log


@pytest.mark.promises("DE92")
def test_a_fresh_token_that_is_refused_is_a_failure(token_form, new_mount, folder):
    (folder / "token").write_text("first\n")
    token_form.accept("first")
    mount = new_mount(None, "--token-command", token_command(folder), to=token_form.url())
    (mount.root / "a").write_bytes(b"x")
    mount.wait_all()
    token_form.accept("second")
    assert token_form.status_of("Bearer first") == 401
    (mount.root / "b").write_bytes(b"x")
    error = mount.wait_for("b", "failed")["last_error"]
    assert error["code"] == "unauthorized" and "--token-command" in error["message"]
    assert (folder / "runs").read_text() == "run\n" * 2


@pytest.mark.promises("DE93a")
def test_a_token_command_that_fails_is_named_at_the_start(new_mount, folder):
    for command, expected in (("exit 3", "ended with 3"), ("echo", "token alone"), ("echo 'a b'", "token alone")):
        mount = new_mount(
            None, "--token-command", command, to="form+https://127.0.0.1:9/x", start=False, name=str(len(expected)))
        code, message = mount.start_and_fail()
        assert code != 0 and expected in message, message


@pytest.mark.promises("DE93b")
@pytest.mark.parametrize("command", ["sleep 300", "echo token; exec >&-; sleep 300"], ids=["silent", "closed"])
def test_a_signal_ends_a_token_command_and_the_start(folder, command):
    """Regression: nothing but SIGKILL ended it, and one that had closed its output was waited for without an end."""
    (folder / "capture").mkdir()
    program = Program(
        [MOUNT_TOOL, "mount", folder / "capture", "--to", "https://127.0.0.1:9", "--spool", folder / "spool",
         "--token-command", f"echo $$ >{folder}/pid; {command}"], folder / "mount.log")
    try:
        wait_until((folder / "pid").is_file, "it runs")
        program.signal(signal.SIGTERM)
        assert program.wait(SOON / 2) != 0 and "a signal came" in program.log, program.describe()
    finally:
        left = program.close()
    assert not left


@pytest.mark.promises("DE93b")
def test_a_token_command_may_have_as_many_files_open_as_before(new_mount, receiver, folder):
    """Regression: it had the limit that the mount had raised for itself."""
    (folder / "token").write_text(receiver.token)
    mount = new_mount(
        None, "--token-command", f"ulimit -Sn >{folder}/limit; cat {folder}/token", to=receiver.url, ca=receiver.ca,
        prefix=(installed("prlimit"), "--nofile=512:4096"))
    assert (folder / "limit").read_text() == "512\n"
    limits = open(f"/proc/{mount.program.process.pid}/limits").read()
    assert next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3] == "4096", limits


@pytest.mark.promises("DE102a")
def test_proxy_users_are_not_given_as_arguments(new_mount):
    mount = new_mount(
        None, "--proxy", f"http://{PROXY_USER}:{PROXY_PASSWORD}@127.0.0.1:9", to="https://127.0.0.1:9", start=False)
    code, message = mount.start_and_fail()
    assert code != 0 and "--proxy-auth-file" in message and PROXY_PASSWORD not in message
