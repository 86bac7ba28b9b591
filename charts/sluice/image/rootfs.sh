#!/usr/bin/env bash
# Makes the root file system of the controller's image, and proves that the controller starts in it.
#
#   charts/sluice/image/rootfs.sh [--binary FILE] [--no-check] DIR
#
# DIR must not exist or be empty. In it: the binary, exactly the shared libraries it loads, the
# certificates of the public authorities, the files the resolver reads, and one user without rights.
# No shell, no package manager. It needs no container engine; Containerfile calls it for the image.
# The check runs `/sluice-controller --version` inside DIR as that user. It needs root, or a kernel
# that lets users make namespaces.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
binary=$root/build/release/bin/sluice-controller
check=yes
target=
readonly user_id=65532

die() {
  printf 'rootfs.sh: %s\n' "$*" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --binary) [ $# -gt 1 ] || die "--binary needs a file"; binary=$2; shift ;;
    --no-check) check=no ;;
    -*) die "unknown option $1" ;;
    *) [ -z "$target" ] || die "more than one directory given"; target=$1 ;;
  esac
  shift
done
[ -n "$target" ] || die "no directory given"
[ -x "$binary" ] || die "$binary is not there: run cmake --preset release && cmake --build --preset release"
[ ! -e "$target" ] || [ -z "$(ls -A "$target")" ] || die "$target is not empty"

# Paths of the shared libraries and of the loader, as the loader itself finds them.
libraries_of() {
  local listing
  listing=$(ldd "$1")
  if grep -q 'not found' <<<"$listing"; then
    die "libraries of $1 are missing: $(grep 'not found' <<<"$listing" | tr -s '\t\n' ' ')"
  fi
  awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' <<<"$listing" | sort -u
}

# Copies a file to the same path below the target. Links are followed, because Debian's /lib is one.
copy_in() {
  mkdir -p "$target$(dirname "$1")"
  cp --dereference --preserve=mode "$1" "$target$1"
}

mkdir -p "$target"
target=$(cd "$target" && pwd)
mkdir -p "$target"/{dev,etc/sluice,etc/ssl/certs,proc,run,sys,tmp,usr/lib/ssl,var}
ln -s ../run "$target/var/run"
chmod 1777 "$target/tmp"

install -m 0755 "$binary" "$target/sluice-controller"
while read -r library; do
  copy_in "$library"
done < <(libraries_of "$binary")

[ -r /etc/ssl/certs/ca-certificates.crt ] || die "the package ca-certificates is not installed"
copy_in /etc/ssl/certs/ca-certificates.crt
# Where Debian's OpenSSL looks on its own.
ln -s /etc/ssl/certs "$target/usr/lib/ssl/certs"
ln -s /etc/ssl/certs/ca-certificates.crt "$target/usr/lib/ssl/cert.pem"

printf 'root:x:0:0:root:/:/none\nsluice:x:%s:%s:sluice:/:/none\n' "$user_id" "$user_id" >"$target/etc/passwd"
printf 'root:x:0:\nsluice:x:%s:\n' "$user_id" >"$target/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$target/etc/nsswitch.conf"

# The same input gives the same bytes.
find "$target" -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH:-0}" {} +

if [ "$check" = yes ]; then
  run_inside() {
    if [ "$(id -u)" -eq 0 ]; then
      chroot --userspec="$user_id:$user_id" "$target" "$@"
    else
      unshare --user --map-root-user chroot "$target" "$@"
    fi
  }
  version=$(run_inside /sluice-controller --version) ||
    die "/sluice-controller --version fails inside $target"
  printf 'checked inside %s: %s\n' "$target" "$version"
fi
printf '%s: %s files, %s KiB\n' "$target" "$(find "$target" -type f | wc -l)" "$(du -sk "$target" | cut -f1)"
