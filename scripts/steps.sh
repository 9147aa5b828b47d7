# Sourced by scripts/test: runs steps one after the other, with their times, and sums up at the end.
# shellcheck shell=bash

# What steps print, records of tests that ran, and what one step leaves for another.
work="$(mktemp -d)"
logs="$work/logs"
mkdir "$logs"
trap 'rm -rf "$work"' EXIT
failed=()
times=()

# Runs one step; a failing one is remembered and the next ones still run.
step() { # NAME COMMAND…
  local name="$1" start=$SECONDS outcome=passed
  shift
  printf '\n== %s\n' "$name"
  if ! "$@" 2>&1 | tee "$logs/$name" || [ "${PIPESTATUS[0]}" -ne 0 ]; then
    failed+=("$name")
    outcome=FAILED
  fi
  times+=("$(printf '%6d s  %s' $((SECONDS - start)) "$name")")
  printf -- '-- %s: %s (%d s)\n' "$name" "$outcome" $((SECONDS - start))
}

has_failed() { # NAME
  [[ " ${failed[*]} " == *" $1 "* ]]
}

# The slowest tests of all steps, by what pytest and Swift Testing say of each. Each part of the pipe reads all of its input:
# one that stops early ends the run with SIGPIPE.
slowest() {
  # Numbers have points, whatever the user's language.
  local -x LC_ALL=C
  {
    sed -nE 's/^ *([0-9.]+)s (call|setup|teardown) +(.*)$/\1 \3/p' "$logs"/*
    sed -nE '/ run with /d; s/^[^ ]+ +Test (case )?([^"]*|".*") (with [0-9]+ test cases )?passed after ([0-9.]+) seconds\.?$/\4 \2/p' "$logs"/*
  } | sort -rn | sed -n 1,10p | while read -r seconds name; do printf '  %6.1f s  %s\n' "$seconds" "$name"; done
}

# What failed, again at the end, where it is read first (and where a log that was cut off still has it): the names, and the
# last lines of each report.
failures() {
  local name
  for name in "${failed[@]}"; do
    printf '\n== failed in %s\n' "$name"
    { grep -a -h -E '^(FAILED|ERROR) |^E  |✘ Test|error: |No space left' "$logs/$name" || tail -n 20 "$logs/$name"; } |
      cut -c 1-400 | tail -n 60 | sed 's/^/  /'
  done
}

summary() {
  printf '\n== skipped\n'
  { grep -a -h -E '^SKIPPED' "$logs"/* || true
    grep -a -h -E '(➜|◇|↷).* skipped' "$logs"/* || true; } | sort -u | sed 's/^/  /' | grep . || echo "  nothing"
  printf '\n== slowest tests\n'
  slowest
  printf '\n== times\n'
  printf '  %s\n' "${times[@]}" "$(printf '%6d s  all' "$SECONDS")"
  printf '\n== result\n'
  if [ ${#failed[@]} -eq 0 ]; then
    echo "  everything passed"
  else
    printf '  FAILED: %s\n' "${failed[@]}"
    failures
    exit 1
  fi
}
