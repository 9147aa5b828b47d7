# Sourced by the other scripts, after set-up.sh: where builds of the packages that the project stands on are kept.
# shellcheck shell=bash

# Takes a place among the kept builds of a kind until this script ends, and names it in `place`. Runs at the same time have
# different places: in one, each would replace the programs that the other is testing.
take_place() { # KIND
  local number lock
  mkdir -p "$kept_cache/builds"
  for number in 1 2 3 4 5 6 7 8; do
    place="$1"
    [ "$number" -eq 1 ] || place="$1.$number"
    exec {lock}>"$kept_cache/builds/$place.lock"
    if flock -n "$lock"; then return; fi
    exec {lock}>&-
  done
  fail "eight runs build at the same time in $kept_cache"
}

# Settles the versions of a package and names the folder that keeps its builds: another one for each set of versions, each
# Swift and each system, because what one of them has compiled is of no use to another. A build in it compiles the project's own
# code anew in another checkout, and the packages below it never again.
kept_build() { # PLACE [PACKAGE-FOLDER]
  local place="$1" package="${2:-.}" key
  swift package --package-path "$package" --scratch-path "$kept_cache/settling-$place" resolve >&2 || return
  key="$({ swift --version 2>/dev/null; . /etc/os-release && echo "$ID $VERSION_ID $(uname -m)"
    # The versions, without what names this run.
    grep -E '"(identity|revision|version)"' "$package/Package.resolved"; } | sha256sum | cut -c 1-16)"
  local folder="$kept_cache/builds/$place-$key"
  mkdir -p "$folder"
  touch "$folder"
  forget_old_builds "$place" >&2
  echo "$folder"
}

# Keeps the last two builds of a place: the present one, and the one before a change of versions.
forget_old_builds() { # PLACE
  local old
  # shellcheck disable=SC2012
  ls -dt "$kept_cache/builds/$1"-* 2>/dev/null | tail -n +3 | while read -r old; do rm -rf --one-file-system "$old"; done
}
