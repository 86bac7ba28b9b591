#!/usr/bin/env bash
# Builds everything and runs all tests, on a machine that may have nothing but this repository.
#
#   e2e/test.sh                   unit tests, then the suites against a real control plane
#   e2e/test.sh --unit            only the unit tests
#   e2e/test.sh --suite NAME ...  only these suites (and the build)
#   e2e/test.sh --bench           only the measurements of e2e/bench, with their table at the end
#   e2e/test.sh --scale           the same of e2e/scale: gangs of 512 pods, 5,000 nodes
#   e2e/test.sh --load NAME ...   only the load of e2e/load/scenarios/NAME.yaml (or a path); the table
#                                 at the end, CSV files and an HTML page in build/load/NAME
#   e2e/test.sh --floor NAME ...  the limit of that load: the least possible writes, no controller
#
# Long output goes to files under build/log and build/e2e. The last line tells the numbers of tests.
set -euo pipefail

# shellcheck source=e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

logs=$sluice_root/build/log
passed=0 failed=0 skipped=0 plane=

# The numbers are told whatever ends the script.
finish() {
  local status=$?
  if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
  if [ -n "$plane" ]; then kill -- "-$plane" 2>/dev/null || true; fi
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ] || exit 1
}

unit_tests() {
  local report=$logs/ctest.xml log=$logs/ctest.log tests=0 bad=0 left_out=0 status=0
  rm -f "$report"
  run_logged "$log" "unit tests" env -C "$sluice_root" \
    ctest --preset release --parallel "$(nproc)" --output-junit "$report" || status=$?
  if [ -s "$report" ]; then
    tests=$(sed -n 's/.*\btests="\([0-9]*\)".*/\1/p;' "$report" | head -n 1)
    bad=$(sed -n 's/.*\bfailures="\([0-9]*\)".*/\1/p' "$report" | head -n 1)
    left_out=$(sed -n 's/.*\bskipped="\([0-9]*\)".*/\1/p' "$report" | head -n 1)
  fi
  # A run without a single test proves nothing.
  if [ "$tests" -eq 0 ] || { [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; }; then bad=$((bad + 1)); fi
  passed=$((passed + (tests > bad + left_out ? tests - bad - left_out : 0)))
  failed=$((failed + bad))
  skipped=$((skipped + left_out))
}

suite() { # NAME [DIRECTORY]
  local log=$logs/suite-$1.log bad status=0
  run_logged "$log" "suite $1" env -C "$sluice_root/e2e" \
    go test -v -count=1 -parallel 8 -timeout 40m "./${2:-suites/$1}" || status=$?
  count() { grep -c "^ *--- $1: " "$log" || true; }
  bad=$(count FAIL)
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  if [ "$bad" -gt 0 ]; then grep '^ *--- FAIL: ' "$log" >&2 || true; fi
  passed=$((passed + $(count PASS)))
  skipped=$((skipped + $(count SKIP)))
  failed=$((failed + bad))
}

load() { # SCENARIO [--floor]
  local name log status=0
  name=$(basename "$1" .yaml)
  log=$logs/load-$name${2:-}.log
  run_logged "$log" "load $name${2:+, its limit}" env -C "$sluice_root/e2e" \
    go run ./load/cmd ${2:+"$2"} "$(load_path "$1")" || status=$?
  # Progress goes before the table.
  sed -n '/^| /,$p' "$log"
  if [ "$status" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

load_path() { # a path stays valid in another working directory
  if [ -e "$1" ]; then realpath "$1"; else printf '%s\n' "$1"; fi
}

go_sources_are_clean() {
  local unformatted
  unformatted=$(gofmt -l "$sluice_root/e2e")
  [ -z "$unformatted" ] || { say "not formatted: $unformatted"; return 1; }
  run_logged "$logs/go-vet.log" "checking the Go sources" env -C "$sluice_root/e2e" go vet ./...
}

main() {
  local unit=yes suites=() directory name only_unit=no bench= loads=() option=
  while [ $# -gt 0 ]; do
    case $1 in
      --unit) only_unit=yes ;;
      --bench | --scale) unit=no; bench=${1#--} ;;
      --load | --floor)
        unit=no
        if [ "$1" = --floor ]; then option=--floor; else option=; fi
        loads+=("${2:?$1 needs a scenario}" "$option")
        shift
        ;;
      --suite) unit=no; suites+=("${2:?--suite needs a name}"); shift ;;
      *) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift
  done
  mkdir -p "$logs"
  ensure_packages "$logs"

  # Go and C++ take turns on the processors: while one loads or links, the other compiles.
  if [ "$only_unit" = no ]; then
    ensure_go "$logs"
    setsid "$sluice_root/e2e/controlplane.sh" build >"$logs/controlplane.dir" &
    plane=$!
  fi
  build_sluice "$logs"
  if [ "$unit" = yes ]; then unit_tests; fi
  if [ "$only_unit" = no ]; then
    if ! wait "$plane"; then
      say "the control plane could not be built"
      failed=$((failed + 1))
    else
      go_sources_are_clean || failed=$((failed + 1))
      if [ -n "$bench" ]; then
        suite "$bench" "$bench"
        sed -n '/^| /p' "$logs/suite-$bench.log"
      elif [ "${#suites[@]}" -eq 0 ] && [ "${#loads[@]}" -eq 0 ]; then
        suite load-unit load
        for directory in "$sluice_root"/e2e/suites/*/; do suites+=("$(basename "$directory")"); done
      fi
      for name in "${suites[@]}"; do suite "$name"; done
      while [ "${#loads[@]}" -gt 0 ]; do
        load "${loads[0]}" "${loads[1]}"
        loads=("${loads[@]:2}")
      done
    fi
    plane=
  fi
}

trap finish EXIT
main "$@"
