#!/usr/bin/env bash
# The bubblewrap of another Debian release, without installing it: fetched from the same mirror, verified by apt, run with
# the C library of its own release.
#
#   bubblewrap.sh DIR      make DIR/bin/bwrap (12's on Debian 13, 13's on Debian 12); DIR must be readable for everybody
set -euo pipefail

dir=$1
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
case $codename in
bookworm) other=trixie ;;
trixie) other=bookworm ;;
*)
    echo "neither Debian 12 nor 13" >&2
    exit 1
    ;;
esac

mkdir -p "$dir"/{parts,lists/partial,archives/partial,debs,root,bin}
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    if [ -f "$file" ] && grep -q "[ /]$codename" "$file"; then
        sed "s/\b$codename\b/$other/g" "$file" >"$dir/parts/${file##*/}"
    fi
done
options=(-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$dir/parts" -o Dir::State::lists="$dir/lists"
    -o Dir::Cache::archives="$dir/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
apt-get "${options[@]}" update >&2
(cd "$dir/debs" && apt-get "${options[@]}" download bubblewrap libc6 libcap2 libselinux1 libpcre2-8-0 >&2)
for package in "$dir"/debs/*.deb; do
    dpkg-deb -x "$package" "$dir/root"
done
loader=$(find "$dir/root" -name 'ld-linux*.so*' | head -n 1)
# One folder, whichever way the release lays /lib out.
libraries=$(find "$dir/root" \( -name 'libc.so.6' -o -name 'libcap.so.2' -o -name 'libselinux.so.1' -o -name 'libpcre2-8.so.0' \) \
    -printf '%h\n' | sort -u | paste -sd:)
printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s/root/usr/bin/bwrap" "$@"\n' "$loader" "$libraries" "$dir" >"$dir/bin/bwrap"
chmod 755 "$dir" "$dir/bin/bwrap"
"$dir/bin/bwrap" --version
