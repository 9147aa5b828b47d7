#!/usr/bin/env bash
# A session with uploadfs, as one would type it: write a capture, watch it, wait for it, see the receipt.
#
# usage: examples/session.sh MOUNTPOINT [uploadfs-mount]
set -euo pipefail
mount="${1:?usage: examples/session.sh MOUNTPOINT [uploadfs-mount]}"
tool="${2:-uploadfs-mount}"

# Any program that can write files will do. This one makes 20 MB and copies it in.
capture="$(mktemp)"
trap 'rm -f "$capture"' EXIT
head -c 20000000 /dev/urandom >"$capture"
cp "$capture" "$mount/scan42.mov"

# Every capture has a status file. scan42.json is short for scan42.mov.json while no other scan42.* exists.
cat "$mount/status/scan42.json"
echo

# The same, for people.
"$tool" status "$mount" scan42.mov

# Until everything written so far is acknowledged by the server.
"$tool" wait "$mount" --timeout 60

# Now there is a receipt.
cat "$mount/status/scan42.mov.json"
echo

# The capture stays readable in the mount after delivery.
cmp "$capture" "$mount/scan42.mov"
echo "scan42.mov is delivered"
