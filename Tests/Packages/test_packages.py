"""The packages on a fresh Debian in which no Swift is, with systemd: installed, used, upgraded, removed and purged, in this order on one machine."""

import pathlib
import re
import shutil

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TOKEN = "0123456789abcdef" * 4
RECEIVER = "uploadfs-receiver.service"
MOUNT = "uploadfs@capture.service"
RECEIVED = "/var/lib/uploadfs-receiver/files"
# What is fetched comes over the network.
FETCHING = 600


def install(machine, packages):
    for package in packages:
        machine.copy(package, f"/root/{package.name}")
    names = " ".join(f"/root/{package.name}" for package in packages)
    return machine.run(f"apt-get install -y -q --no-install-recommends {names} 2>&1", within=FETCHING)


def state(machine, unit, *names):
    said = machine.run(f"systemctl show {unit} --property={','.join(names)}")
    return dict(line.split("=", 1) for line in said.splitlines())


def process(machine, unit=MOUNT):
    return state(machine, unit, "MainPID")["MainPID"]


def drop_in(machine, unit, text):
    machine.write(f"/etc/systemd/system/{unit}.d/test.conf", f"[Service]\n{text}\n")
    machine.run("systemctl daemon-reload")


@pytest.fixture(scope="module")
def upgraded_from(machine, old_packages):
    """Packages of a lower version are installed, set up and running."""
    machine.run("apt-get update -q", within=FETCHING)
    return install(machine, old_packages)


def test_no_swift_is_there(machine):
    assert machine.try_("command -v swift").returncode != 0
    assert machine.run("find / -xdev -name 'libswift*' -o -xdev -name 'libFoundation*'") == ""


def test_they_are_installed_with_all_that_they_need(machine, upgraded_from):
    assert "dpkg: error" not in upgraded_from
    assert machine.run("dpkg-query -W -f '${db:Status-Abbrev}${Version}\\n' uploadfs uploadfs-receiver").split() == ["ii", f"0.1.0+deb{machine.release}"] * 2
    assert machine.run("dpkg --verify uploadfs uploadfs-receiver") == ""
    assert re.match(r"uploadfs-mount \S+ \(commit [0-9a-f]{12}", machine.run("uploadfs-mount --version"))
    assert re.match(r"uploadfs-receiver \S+ \(commit [0-9a-f]{12}", machine.run("uploadfs-receiver --version"))
    assert machine.run("systemctl is-enabled uploadfs@capture uploadfs-receiver || true").split() == ["disabled", "disabled"]


def test_the_units_are_right_and_the_receivers_is_closed(machine, upgraded_from):
    machine.run("systemctl daemon-reload")
    said = machine.try_(f"systemd-analyze verify --man=no {RECEIVER} {MOUNT} 2>&1").stdout
    assert "uploadfs" not in said, said
    machine.run(f"systemd-analyze security --threshold=29 {RECEIVER}")


def test_the_receiver_runs_as_a_user_of_its_own(machine, upgraded_from, authority):
    certificate, key = authority.issue("receiver")
    machine.copy(certificate, "/etc/uploadfs-receiver/certificate.pem", 0o600)
    machine.copy(key, "/etc/uploadfs-receiver/key.pem", 0o600)
    machine.write("/etc/uploadfs-receiver/tokens", f"files {TOKEN}\n", 0o600)
    machine.write("/etc/default/uploadfs-receiver", 'LISTEN="127.0.0.1:28443"\nOPTIONS="--log-level debug"\n')
    machine.run(f"systemctl enable --now {RECEIVER}")
    number = process(machine, RECEIVER)
    assert machine.run(f"stat -c %U /proc/{number}").strip() == "uploadfs-receiver"
    assert machine.run(f"tr '\\0' ' ' </proc/{number}/cmdline").endswith("--log-level debug ")
    assert state(machine, RECEIVER, "StatusText")["StatusText"] == "listening on 127.0.0.1:28443"


def test_a_capture_of_another_user_arrives(machine, upgraded_from, authority):
    machine.copy(authority.certificate, "/etc/uploadfs/ca.pem")
    machine.write(
        "/etc/uploadfs/capture.yaml",
        "to: https://127.0.0.1:28443\nspool: /var/spool/uploadfs/capture\nca: ca.pem\nallow-other: true\n")
    # Found without a setting.
    machine.write("/etc/credstore/uploadfs.capture.token-file", TOKEN + "\n", 0o600)
    machine.run(f"systemctl enable --now {MOUNT}")
    # The mount is the machine's, not the service's alone.
    assert machine.run("findmnt -n -o FSTYPE /capture").strip() == "fuse.uploadfs"
    machine.run("chmod 1777 /capture && useradd recorder")
    machine.run("head -c 20000000 /dev/urandom >/tmp/scan && chmod 644 /tmp/scan")
    machine.run("cp /tmp/scan /capture/scan.mov", user="recorder")
    machine.run("uploadfs-mount wait /capture --timeout 60")
    assert machine.run("stat -c %U /capture/scan.mov").strip() == "recorder"
    machine.run(f"cmp /tmp/scan {RECEIVED}/scan.mov")


def test_a_daemon_that_is_killed_is_started_again_and_loses_no_closed_file(machine, upgraded_from):
    machine.run(f"systemctl stop {RECEIVER}")
    machine.run("cp /tmp/scan /capture/killed.mov")
    before = process(machine)
    machine.run(f"kill -KILL {before}")
    machine.wait_until(f"[ $(systemctl show {MOUNT} --property=MainPID --value) != {before} ] && systemctl is-active {MOUNT}")
    machine.run(f"systemctl start {RECEIVER}")
    machine.run("uploadfs-mount wait /capture --timeout 60")
    machine.run(f"cmp /tmp/scan {RECEIVED}/killed.mov")


@pytest.mark.parametrize("unit", [MOUNT, RECEIVER])
def test_a_program_that_does_not_answer_is_started_again(machine, upgraded_from, unit):
    drop_in(machine, unit, "WatchdogSec=3")
    machine.run(f"systemctl restart {unit}")
    before = process(machine, unit)
    # It answers for longer than the watchdog waits.
    assert machine.try_(f"sleep 5; [ $(systemctl show {unit} --property=MainPID --value) = {before} ]").returncode == 0
    machine.run(f"kill -STOP {before}")
    machine.wait_until(f"[ $(systemctl show {unit} --property=MainPID --value) != {before} ] && systemctl is-active {unit}")
    assert "watchdog" in machine.run(f"journalctl --no-pager -u {unit}").lower()
    machine.run(f"rm -r /etc/systemd/system/{unit}.d && systemctl daemon-reload && systemctl restart {unit}")


def test_stopping_delivers_what_is_left(machine, upgraded_from):
    machine.run(f"systemctl stop {RECEIVER}")
    machine.run("cp /tmp/scan /capture/drained.mov")
    machine.run(f"systemctl stop --no-block {MOUNT}")
    machine.wait_until("findmnt /capture && grep -q '\"draining\": *true' /capture/.uploadfs/summary.json || ! findmnt /capture")
    machine.run(f"systemctl start {RECEIVER}")
    machine.wait_until(f"[ $(systemctl show {MOUNT} --property=ActiveState --value) = inactive ]")
    machine.run(f"cmp /tmp/scan {RECEIVED}/drained.mov")
    assert state(machine, MOUNT, "Result")["Result"] == "success"
    assert machine.try_("findmnt /capture").returncode != 0


def test_what_stopping_cannot_deliver_stays_and_goes_with_the_next_start(machine, upgraded_from):
    machine.run(f"systemctl start {MOUNT} && systemctl stop {RECEIVER}")
    machine.run("cp /tmp/scan /capture/left.mov")
    drop_in(machine, MOUNT, "ExecStop=\nExecStop=-/usr/bin/uploadfs-mount unmount %f --timeout 2")
    machine.run(f"systemctl stop {MOUNT}")
    assert state(machine, MOUNT, "ActiveState", "Result") == {"ActiveState": "inactive", "Result": "success"}
    assert machine.try_("findmnt /capture").returncode != 0
    machine.run(f"rm -r /etc/systemd/system/{MOUNT}.d && systemctl daemon-reload")
    machine.run(f"systemctl start {RECEIVER} {MOUNT}")
    machine.run("uploadfs-mount wait /capture --timeout 60")
    machine.run(f"cmp /tmp/scan {RECEIVED}/left.mov")


def test_an_upgrade_restarts_the_receiver_and_no_mount(machine, upgraded_from, new_packages):
    mount, receiver = process(machine), process(machine, RECEIVER)
    said = install(machine, new_packages)
    version = re.search(r"_([0-9.]+)\+deb", new_packages[0].name)[1]
    assert machine.run("dpkg-query -W -f '${Version}\\n' uploadfs uploadfs-receiver").split() == [f"{version}+deb{machine.release}"] * 2
    assert f"stay with version 0.1.0+deb{machine.release}" in said, said
    assert process(machine) == mount and process(machine, RECEIVER) != receiver
    assert machine.read("/etc/default/uploadfs-receiver").startswith(b'LISTEN="127.0.0.1:28443"')
    # The daemon of before works with the receiver of now, and so does the one of now with the spool of before.
    machine.run("cp /tmp/scan /capture/before.mov && uploadfs-mount wait /capture --timeout 60")
    machine.run(f"systemctl restart {MOUNT}")
    assert process(machine) != mount
    machine.run("cp /tmp/scan /capture/after.mov && uploadfs-mount wait /capture --timeout 60")
    machine.run(f"cmp /tmp/scan {RECEIVED}/before.mov && cmp /tmp/scan {RECEIVED}/after.mov")


def test_fstab_mounts_and_an_automount_when_somebody_looks(machine, upgraded_from):
    machine.run("mkdir /scans /later && install -m 600 /etc/credstore/uploadfs.capture.token-file /etc/uploadfs/token")
    machine.write(
        "/etc/fstab", "https://127.0.0.1:28443 /scans uploadfs ca=/etc/uploadfs/ca.pem,token-file=/etc/uploadfs/token,_netdev,noauto 0 0\n"
        "uploadfs /later uploadfs config=/etc/uploadfs/later.yaml,_netdev,nofail,x-systemd.automount 0 0\n")
    machine.write(
        "/etc/uploadfs/later.yaml", "to: https://127.0.0.1:28443\nspool: /var/spool/uploadfs/later\nca: ca.pem\ntoken-file: token\n")
    machine.run("mount /scans")
    assert machine.run("findmnt -n -o FSTYPE /scans").strip() == "fuse.uploadfs"
    machine.run("cp /tmp/scan /scans/fstab.mov && uploadfs-mount wait /scans --timeout 60 && umount /scans")
    machine.run(f"cmp /tmp/scan {RECEIVED}/fstab.mov && [ -d /var/spool/uploadfs/scans ]")
    machine.run("systemctl daemon-reload && systemctl start later.automount")
    assert "fuse.uploadfs" not in machine.run("findmnt -n -o FSTYPE /later")
    machine.run("ls /later")
    assert "fuse.uploadfs" in machine.run("findmnt -n -o FSTYPE /later")
    machine.run("cp /tmp/scan /later/automount.mov && uploadfs-mount wait /later --timeout 60")
    machine.run(f"cmp /tmp/scan {RECEIVED}/automount.mov")
    # It is there already.
    machine.run("mount -a")
    machine.run("systemctl stop later.automount later.mount")
    assert "fuse.uploadfs" not in machine.run("findmnt -n -o FSTYPE /later || true")
    machine.wait_until("! pgrep -f '[u]ploadfs-mount mount /later'")


def test_the_demonstration_runs_with_them(machine, upgraded_from):
    shutil.copytree(REPOSITORY / "scripts", machine.root / "root/uploadfs/scripts")
    script = """
      cd /root/uploadfs
      scripts/run >said 2>&1 & run=$!
      for _ in $(seq 300); do grep -q '^Mounted demo/capture' said && break; sleep 0.1; done
      cp /tmp/scan demo/capture/demo.mov
      kill -TERM $run
      wait $run
      cat said
      cmp /tmp/scan demo/received/demo.mov
    """
    assert "Without Swift: the installed programs are used" in machine.run(script)


def test_removal_delivers_and_purge_keeps_what_is_undelivered_and_says_so(machine, upgraded_from):
    machine.run("cp /tmp/scan /capture/last.mov")
    machine.run("apt-get remove -y -q uploadfs 2>&1", within=300)
    machine.run(f"cmp /tmp/scan {RECEIVED}/last.mov")
    assert machine.try_("findmnt /capture || command -v uploadfs-mount").returncode != 0
    # What a mount leaves that could deliver nothing, beside one that has nothing left.
    machine.run("rm -r /var/spool/uploadfs/scans/captures/* /var/spool/uploadfs/later/captures/*")
    captures = int(machine.run("find /var/spool/uploadfs/capture/captures -type f | wc -l"))
    said = machine.run("apt-get purge -y -q uploadfs 2>&1")
    assert f"uploadfs: kept /var/spool/uploadfs/capture: {captures} captures lie in it" in said, said
    assert "uploadfs: kept /etc/uploadfs" in said
    machine.run("cmp /tmp/scan /var/spool/uploadfs/capture/captures/last.mov && [ -e /etc/uploadfs/capture.yaml ]")
    assert machine.try_("ls -d /var/spool/uploadfs/scans /var/spool/uploadfs/later").returncode != 0


def test_what_was_kept_is_delivered_by_a_package_that_is_installed_again(machine, upgraded_from, new_packages):
    """And then goes with the purge of an empty spool."""
    machine.run(f"cp /tmp/scan /var/spool/uploadfs/capture/captures/again.mov && chmod 644 /var/spool/uploadfs/capture/captures/again.mov")
    install(machine, [package for package in new_packages if package.name.startswith("uploadfs_")])
    machine.run(f"systemctl enable --now {MOUNT}")
    machine.wait_until(f"cmp /tmp/scan {RECEIVED}/again.mov")
    machine.run("rm /capture/*.mov")
    said = machine.run("apt-get purge -y -q uploadfs 2>&1", within=300)
    assert "kept" not in said
    assert machine.try_("ls -d /var/spool/uploadfs /etc/uploadfs").returncode != 0
    assert machine.try_(f"ls /etc/systemd/system/multi-user.target.wants/{MOUNT}").returncode != 0


def test_a_purged_receiver_keeps_what_it_received_and_says_so(machine, upgraded_from):
    said = machine.run("apt-get purge -y -q uploadfs-receiver 2>&1", within=300)
    assert "uploadfs-receiver: kept /var/lib/uploadfs-receiver: " in said
    machine.run(f"cmp /tmp/scan {RECEIVED}/scan.mov && [ ! -e /etc/uploadfs-receiver ] && [ ! -e /etc/default/uploadfs-receiver ]")
    assert machine.try_(f"systemctl is-active {RECEIVER}").returncode != 0
