# Run by launch.py in a private mount namespace: lay the workspace, then become bubblewrap.
#
# usage: bash launch.sh RUN STATUS READY GO LAYOUT SIZE OPTIONS DROP DATA CGROUPS SOURCES... -- BUBBLEWRAP...
#   RUN      directory of this run: mount points `m` and `h`, the layers `stage` and `base`
#   STATUS   descriptor that becomes 3
#   READY, GO  descriptors: say on READY that all is mounted, wait for the end of GO; or - for neither
#   LAYOUT   tmpfs: writes go to a tmpfs of SIZE bytes; disk: to RUN/m, without a bound; bind: into Base itself
#   OPTIONS  further options of the overlay mount, each followed by a comma
#   DROP     user and group id to become before bubblewrap, or -
#   DATA     kilobytes of data each process may have, or -
#   CGROUPS  colon-separated cgroup.procs files to join
#   SOURCES  host directories that DROP could not reach, shown to bubblewrap as RUN/m/0, RUN/m/1, ...
set -eu
run=$1 status=$2 ready=$3 go=$4 layout=$5 size=$6 options=$7 drop=$8 data=$9
cgroups=${10}
shift 10
cd -- "$run"
exec 3>&"$status"
ulimit -c 0
IFS=:
for file in $cgroups; do echo $$ >"$file"; done
unset IFS
case $layout in
bind)
    mount -t tmpfs -o size=1m,mode=0711 execcritic m
    mkdir m/work
    mount --bind base/ m/work
    ;;
*)
    if [ "$layout" = tmpfs ]; then mount -t tmpfs -o "size=$size,mode=0711" execcritic m; fi
    mkdir m/upper m/index m/work
    if [ "$drop" != - ]; then chown "$drop:$drop" m/upper; fi
    mount -t overlay -o "${options}lowerdir=stage:base,upperdir=m/upper,workdir=m/index" execcritic m/work
    ;;
esac
for ((i = 0; ; i++)); do
    source=$1
    shift
    if [ "$source" = -- ]; then break; fi
    mkdir "m/$i"
    mount --bind "$source" "m/$i"
done
if [ "$ready" != - ]; then
    owner=
    if [ "$drop" != - ]; then owner=,uid=$drop,gid=$drop; fi
    mount -t tmpfs -o "size=$size,mode=0755$owner" execcritic h
    echo ready >&"$ready"
    read -r _ <&"$go" || true
fi
if [ "$data" != - ]; then ulimit -d "$data"; fi
if [ "$drop" = - ]; then exec "$@"; fi
exec setpriv --reuid "$drop" --regid "$drop" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
