# Run a command and count the processes it leaves behind: sh count.sh COMMAND... ; the report goes to descriptor 3.
#
# "S" says that the sandbox got as far as the command. Left-overs are counted again a little later: helpers of
# multiprocessing end by themselves a moment after their parent. The traps keep a signal to the group from ending the
# counting; the command gets default handlers. This shell's own stderr goes nowhere, or it would say `Killed`.
trap : HUP INT QUIT TERM USR1 USR2 ALRM
echo S >&3
exec 4>&2 2>/dev/null
(exec "$@" 2>&4 3>&- 4>&-)
code=$?
for wait in 0.05 0.1 0.2 -; do
    # Not this shell and not process 1.
    left=-2
    for process in /proc/[0-9]*; do
        read -r stat <"$process/stat" && case $stat in *') Z '*) ;; *) left=$((left + 1)) ;; esac
    done
    if [ $left -le 0 ] || [ $wait = - ]; then break; fi
    sleep $wait
done
echo $left >&3
exit $code
