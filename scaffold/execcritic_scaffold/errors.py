"""The one error tree.

ExecCriticError            70  a defect of ours, or a base class
├── UsageError              2  what was asked for cannot be: option, file, node id, configuration key
│   ├── PatchError          2  a patch does not parse or does not apply
│   └── BundleError         2  a bundle is truncated, unreadable, or from a newer version
│       └── BundleTampered  2  its bytes are not those its hashes name (`verify` answers TAMPERED, 6)
├── InfrastructureError     5  the machine failed, not the model and not the code under test
│   ├── SandboxError        5  an isolation engine is missing, refused or died
│   ├── EnvironmentFailure  5  the repository's own environment cannot be built or entered
│   └── ModelError          5  a model endpoint is unreachable, refuses us, or stays broken
└── Interrupted           130  Ctrl-C or a termination signal

A refused test and a failed patch are values (`Qualification`, `Verdict`), never exceptions.
Every message is one sentence that ends with what the user can do next.
"""


class ExecCriticError(Exception):
    """Base of all errors of ours; `exit_code` is what the command line exits with."""

    exit_code = 70


class UsageError(ExecCriticError):
    """The request itself cannot be met."""

    exit_code = 2


class PatchError(UsageError):
    """A patch does not parse or does not apply to Base."""


class BundleError(UsageError):
    """A bundle is truncated, unreadable, or written by a newer version."""


class BundleTampered(BundleError):
    """A bundle's bytes are not those its hashes name."""


class InfrastructureError(ExecCriticError):
    """The machine failed: neither a model failure nor a verdict."""

    exit_code = 5


class SandboxError(InfrastructureError):
    """An isolation engine is missing, refused or died."""


class EnvironmentFailure(InfrastructureError):
    """The repository's environment cannot be built or entered."""


class ModelError(InfrastructureError):
    """A model endpoint is unreachable, unauthorised or keeps failing."""


class Interrupted(ExecCriticError):
    """Ctrl-C or a termination signal."""

    exit_code = 130
