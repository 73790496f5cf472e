"""What executes and judges: Base, patches, sandboxes, runners, the harness and its loop.

Bottom of the stack: imports no role, no model, no command line.
"""
