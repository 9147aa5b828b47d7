"""Settings of the receiver: what its command line says of where files go, and for how long uploads are kept."""

import subprocess
import time

import pytest

from harness import RECEIVER_TOOL, SOON, clean_environment, wait_until
from protocol_client import ProtocolClient, Session


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
    """Regression (NU10): it had no --version."""
    done = subprocess.run([str(RECEIVER_TOOL), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON)
    assert done.returncode == 0 and done.stdout.strip().count(".") == 2, done


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
