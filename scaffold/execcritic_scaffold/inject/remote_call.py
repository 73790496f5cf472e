"""Hand one numbered request to the supervisor of this sandbox (`remote_supervisor.py`) and print its answer.

    python -I -S remote_call.py CONTROL NUMBER SECONDS [BASE64]

The request lies in CONTROL/NUMBER.request already, or is given as BASE64. What is printed is one line: `execcritic data
SHA256 BASE64`, `execcritic file SHA256 SIZE` for an answer that is to be fetched from CONTROL/NUMBER.answer, or
`execcritic running` where it is not there after SECONDS. Calling again is harmless: a request is done once.

Plain standard library, Python 3.6 and later: it runs on whatever Python an image has.
"""

import base64
import hashlib
import os
import socket
import sys

INLINE = 1 << 20
"""Bytes of an answer that are printed; what is longer is fetched as a file."""


def ask(control, number, seconds):
    """True when the request has been done, False when it has not after `seconds`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(os.path.join(control, "socket"))
            connection.sendall(b"%d\n" % number)
            return connection.recv(1) == b"."
        except socket.timeout:
            return False


def main(control, number, seconds, request=None):
    path = os.path.join(control, number)
    if request is not None and not os.path.exists(path + ".answer"):
        with open(path + ".partial", "wb") as file:
            file.write(base64.b64decode(request))
        os.rename(path + ".partial", path + ".request")
    if not ask(control, int(number), float(seconds)):
        print("execcritic running")
        return
    with open(path + ".answer", "rb") as file:
        data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    if len(data) > INLINE:
        print("execcritic file %s %d" % (digest, len(data)))
    else:
        print("execcritic data %s %s" % (digest, base64.b64encode(data).decode()))


if __name__ == "__main__":
    main(*sys.argv[1:])
