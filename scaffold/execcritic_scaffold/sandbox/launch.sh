# Run by launch.py in a private mount namespace: lay the workspace, then become bubblewrap.
#
# usage: bash launch.sh PARENT RUN STATUS READY GO LAYOUT SIZE OPTIONS DROP DATA CGROUPS SOURCES... -- BUBBLEWRAP...
#   PARENT   process that this dies with
#   RUN      directory of this run: mount points `m` and `h`, the layers `stage` and `base`
#   STATUS   descriptor that becomes 3
#   READY, GO  descriptors: say on READY that all is mounted, wait for the end of GO; or - for neither
#   LAYOUT   tmpfs: writes go to a tmpfs of SIZE bytes; disk: to RUN/m, without a bound; bind: into Base itself
#   OPTIONS  further options of the overlay mount, each followed by a comma
#   DROP     user and group id to become before bubblewrap, or -
#   DATA     kilobytes of data each process may have, or -
#   CGROUPS  colon-separated files that take a process into its control groups
#   SOURCES  host directories that DROP could not reach, shown to bubblewrap as RUN/m/0, RUN/m/1, ...
set -eu
parent=$1 run=$2 status=$3 ready=$4 go=$5 layout=$6 size=$7 options=$8 drop=$9
data=${10} cgroups=${11}
shift 11
cd -- "$run"
exec 3>&"$status"
ulimit -c 0
IFS=:
for file in $cgroups; do echo 0 >"$file"; done
unset IFS
sources=() points=()
while [ "$1" != -- ]; do
    points+=("m/${#sources[@]}")
    sources+=("$1")
    shift
done
shift
if [ "$layout" = bind ]; then size=1m; fi
if [ "$layout" != disk ]; then mount -t tmpfs -o "size=$size,mode=0711" execcritic m; fi
mkdir m/upper m/index m/work "${points[@]}"
if [ "$layout" = bind ]; then
    mount --bind base/ m/work
else
    if [ "$drop" != - ]; then chown "$drop:$drop" m/upper; fi
    mount -t overlay -o "${options}lowerdir=stage:base,upperdir=m/upper,workdir=m/index" execcritic m/work
fi
for i in "${!sources[@]}"; do mount --bind "${sources[i]}" "${points[i]}"; done
if [ "$ready" != - ]; then
    owner=
    if [ "$drop" != - ]; then owner=,uid=$drop,gid=$drop; fi
    mount -t tmpfs -o "size=$size,mode=0755$owner" execcritic h
    echo ready >&"$ready"
    read -r _ <&"$go" || true
fi
# bubblewrap asks to die with its parent, but the parent may be gone by then.
read -r stat </proc/$$/stat
read -r _ above _ <<<"${stat##*) }"
if [ "$above" != "$parent" ]; then exit 1; fi
if [ "$data" != - ]; then ulimit -d "$data"; fi
if [ "$drop" = - ]; then exec "$@"; fi
exec setpriv --reuid "$drop" --regid "$drop" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
