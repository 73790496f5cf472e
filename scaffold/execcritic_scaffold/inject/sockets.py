"""Which addresses beyond the own machine the process of the tests turned to (B7).

Seen by the interpreter's audit events, so that it does not matter which library is used or that nothing answers: the
network is off. Runs inside the sandbox; Pythons before 3.8 have no such events and tell nothing.
"""

import sys

MOST = 20
LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost", "")


class Sockets(object):
    """Remembers what was connected to, sent to or looked up, as `host:port`, in order, each once."""

    def __init__(self, request):
        self.seen = []
        self.on = bool(request.get("sockets")) and hasattr(sys, "addaudithook")
        if self.on:
            sys.addaudithook(self._heard)

    def _heard(self, event, args):
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = args[1] if len(args) > 1 else None
            if isinstance(address, tuple) and address and not is_local(address[0]):
                self._note(address[0], address[1] if len(address) > 1 else "")
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            host = args[0] if args else None
            if host is not None and not is_local(host):
                self._note(host, args[1] if len(args) > 1 else "")

    def _note(self, host, port):
        text = "%s:%s" % (_text(host)[:200], _text(port)[:20])
        if text not in self.seen and len(self.seen) < MOST:
            self.seen.append(text)

    def tell(self, channel):
        if self.on:
            channel.emit("sockets", addresses=list(self.seen))


def is_local(host):
    """True for loopback, however it is written, and for "any address of this machine"."""
    host = _text(host).lower().split("%")[0]
    if host in LOCAL or host.startswith("127.") or host in ("0.0.0.0", "::", "::1", "0:0:0:0:0:0:0:1"):
        return True
    return host.startswith(("::ffff:127.", "/")) or host.endswith(".localhost")


def _text(value):
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
