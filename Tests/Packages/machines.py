"""Machines to install packages on: Debian 12 and 13 with systemd as their first process, in which no Swift is."""

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

SUITES = {"12": "bookworm", "13": "trixie"}
CACHE = pathlib.Path(os.environ.get("UPLOADFS_CACHE") or pathlib.Path.home() / ".cache" / "uploadfs") / "roots"
# debootstrap fetches some hundred packages.
MAKING = 900


def mirror():
    """Debian's archive, as this machine's apt knows it."""
    said = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"], capture_output=True, text=True,
        check=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("Debian "))


def apt_settings():
    """How this machine's apt reaches its archives."""
    said = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    return "".join(line + "\n" for line in said.splitlines() if line.startswith(("Acquire::http", "Acquire::Check-", "Acquire::Retries")))


def base(release):
    """The tree of a release as debootstrap makes it, once, with systemd and nothing else that is not needed."""
    tree = CACHE / release
    if not tree.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        making = CACHE / f"{release}.making"
        shutil.rmtree(making, ignore_errors=True)
        proxy = subprocess.run(
            ["apt-config", "shell", "proxy", "Acquire::http::Proxy"], capture_output=True, text=True, check=True).stdout
        proxy = proxy.partition("=")[2].strip().strip("'")
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates,systemd,systemd-sysv,dbus,procps", SUITES[release], making, mirror()],
            env=os.environ | ({"http_proxy": proxy} if proxy else {}), capture_output=True, text=True, timeout=MAKING, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        (making / "etc/apt/apt.conf.d/90machine").write_text(apt_settings())
        making.rename(tree)
    return tree


class Machine:
    """A fresh copy of a release that has booted. It shares this machine's network."""

    def __init__(self, release, folder):
        self.release = release
        self.folder = folder
        self.root = folder / "root"
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base(release)},upperdir={folder}/upper,workdir={folder}/work", self.root],
            check=True)
        self.log = (folder / "console").open("w+")
        devices = [f"--bind={device}" for device in ("/dev/fuse", "/dev/autofs")]
        # A hierarchy of control groups of its own, whichever this machine has: systemd 257 knows the new one alone.
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--directory", self.root, *devices, "--boot"],
            env=os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            self.leader = self._wait_for(self._find_leader, "the machine's first process")
            self._wait_for(lambda: self.try_("systemctl is-system-running").stdout.strip() in ("running", "degraded"), "the machine has booted")
        except BaseException:
            self.close()
            raise

    def _find_leader(self):
        assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()[-4000:]
        for parent in self._children(self.process.pid):
            if pathlib.Path(f"/proc/{parent}/comm").read_text().strip() == "systemd":
                return parent
            for child in self._children(parent):
                if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return child
        return None

    @staticmethod
    def _children(process):
        with contextlib.suppress(FileNotFoundError):
            return [int(word) for task in pathlib.Path(f"/proc/{process}/task").iterdir() for word in (task / "children").read_text().split()]
        return []

    @staticmethod
    def _wait_for(condition, what, within=60):
        deadline = time.monotonic() + within
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {within} s: {what}"
            time.sleep(0.1)
        return found

    def try_(self, script, within=120, user=None):
        """What a shell in the machine says and how it ends."""
        command = script if user is None else f"su -s /bin/sh {user} -c {shlex.quote(script)}"
        return subprocess.run(
            ["nsenter", "--target", str(self.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "env", "-i",
             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
             "sh", "-ec", f"cd /; {command}"],
            capture_output=True, text=True, timeout=within, stdin=subprocess.DEVNULL)

    def run(self, script, within=120, user=None):
        """What a shell in the machine says on stdout; it has to succeed."""
        done = self.try_(script, within, user)
        assert done.returncode == 0, f"{script}\nended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}\n{self.journal()}"
        return done.stdout

    def wait_until(self, script, within=60):
        """Runs a script until it succeeds."""
        self._wait_for(lambda: self.try_(script).returncode == 0, script, within)

    def journal(self):
        return self.try_("journalctl --no-pager -n 60 -u 'uploadfs*'").stdout

    def copy(self, source, target, mode=0o644):
        """Puts a file of this machine into that one."""
        target = self.root / str(target).lstrip("/")
        shutil.copy(source, target)
        target.chmod(mode)

    def write(self, path, text, mode=0o644):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def read(self, path):
        return (self.root / path.lstrip("/")).read_bytes()

    def close(self):
        if self.process.poll() is None:
            # As “machinectl poweroff” does.
            with contextlib.suppress(ProcessLookupError, AttributeError):
                os.kill(self.leader, signal.SIGRTMIN + 4)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.terminate()
                self.process.wait(30)
        self.log.close()
        subprocess.run(["umount", "--recursive", "--lazy", self.root], check=False)
