"""Regression: a large request with a credential asks the server before its body (`Expect: 100-continue`), whatever the server makes
of that."""

import pytest

from harness import wait_until, write_random
from lying_servers import Handler

SIZE = 20 << 20


class Asked(Handler):
    """One that does not know the question, and says nothing to it."""

    def handle_expect_100(self):
        self.server.asked += 1
        return True


class Refuses(Asked):
    """One that wants no questions."""

    def handle_expect_100(self):
        super().handle_expect_100()
        self.send(417, {"Connection": "close"} if self.server.asked % 2 else {})
        self.close_connection = bool(self.server.asked % 2)
        return False


class Wants(Asked):
    """One that looks at the credential first."""

    def handle_expect_100(self):
        super().handle_expect_100()
        if self.headers["Authorization"] == "Bearer right":
            self.send_response_only(100)
            self.end_headers()
            return True
        self.send(401)
        # Bytes of the body that come all the same.
        self.connection.settimeout(0.5)
        try:
            while piece := self.rfile.read1(1 << 16):
                self.server.unwanted += len(piece)
        except TimeoutError:
            pass
        self.close_connection = True
        return False


@pytest.fixture
def new_form_with_token(new_liar, new_mount, folder):
    def make(handler, token="right"):
        server = new_liar("form", None)
        server.RequestHandlerClass, server.asked, server.unwanted = handler, 0, 0
        token_file = folder / "our-token"
        token_file.write_text(token)
        token_file.chmod(0o600)
        mount = new_mount(None, "--expert", "retry-delay=50ms", to=server.options[0], token_file=token_file)
        return server, mount, token_file
    return make


@pytest.mark.promises("DE91")
@pytest.mark.parametrize("handler", [Asked, Wants], ids=["silence", "100"])
def test_a_large_form_is_sent_once_whatever_the_server_makes_of_the_question(new_form_with_token, handler):
    server, mount, _ = new_form_with_token(handler)
    content = write_random(mount.root / "take.mov", SIZE).read_bytes()
    assert mount.wait_for("take.mov", "complete")["attempts"] == 0
    assert server.published["take.mov"] == content
    assert server.received["take.mov"] < SIZE + 1000 and server.asked == 1


@pytest.mark.promises("DE91")
@pytest.mark.parametrize("asked", [0, 1], ids=["closes", "stays"])
def test_a_server_that_refuses_the_question_gets_the_file_without_it(new_form_with_token, asked):
    """Regression: the file was tried for ever, and libcurl asked again by itself."""
    server, mount, _ = new_form_with_token(Refuses)
    server.asked = asked
    content = write_random(mount.root / "take.mov", SIZE).read_bytes()
    mount.wait_for("take.mov", "complete")
    assert server.published["take.mov"] == content and server.asked == asked + 1
    (mount.root / "next.mov").write_bytes(content)
    mount.wait_for("next.mov", "complete")
    assert server.asked == asked + 1


@pytest.mark.promises("DE91")
def test_a_wrong_token_costs_no_body(new_form_with_token):
    server, mount, token_file = new_form_with_token(Wants, token="wrong")
    content = write_random(mount.root / "take.mov", SIZE).read_bytes()
    wait_until(lambda: mount.status("take.mov")["last_error"], "it is refused")
    assert mount.status("take.mov")["last_error"]["code"] == "unauthorized" and server.asked == 1
    token_file.write_text("right")
    mount.say("retry", "take.mov")
    mount.wait_for("take.mov", "complete")
    assert server.published["take.mov"] == content and server.unwanted == 0 and server.received["take.mov"] < SIZE + 1000
