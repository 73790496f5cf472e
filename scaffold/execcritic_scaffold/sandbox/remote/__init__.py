"""Sandboxes of a service over HTTP, with Orchard Env's contract (docs/sandboxes.md).

service.py speaks HTTP, leases.py remembers what was made there, box.py is one sandbox of the service with our
supervisor (`inject/remote_supervisor.py`) in it, kept.py what is laid in each, sandbox.py the `Sandbox` made of these.
"""
