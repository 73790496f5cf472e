"""Start a reporting program several times in one workspace. Started by the supervisor: again.py PROGRAM.

The hash seed counts up from start to start. After each a line {"again": STATUS} goes to the report channel. The
request's `nonces` say how often; each start is told its own only, so that none can speak for a later one.
"""

import json
import os
import subprocess
import sys

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import reaper  # noqa: E402
import report  # noqa: E402


def main():
    # What is started here has the same user id: it must not get at this process's memory and descriptors.
    reaper.prctl(reaper.PR_SET_DUMPABLE, 0)
    channel = os.dup(1)
    os.set_inheritable(channel, False)
    request = report.read_request()
    nonces = request.pop("nonces")
    seed = int(os.environ.get("PYTHONHASHSEED", "0"))
    for number, nonce in enumerate(nonces):
        request["nonce"] = nonce
        env = dict(os.environ, PYTHONHASHSEED=str(seed + number))
        child = subprocess.Popen([sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stdout=channel, env=env)
        child.communicate(json.dumps(request).encode("ascii"))
        os.write(channel, ('{"again": %d}\n' % child.returncode).encode("ascii"))


if __name__ == "__main__":
    main()
