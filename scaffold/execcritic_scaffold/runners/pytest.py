"""pytest: by far the most common runner. The reporter is `inject/run_pytest.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from execcritic_scaffold.paths import Discovery, discover
from execcritic_scaffold.runners import pytest_config
from execcritic_scaffold.runners.ids import match_pytest, module_files, unittest_forms

# Plugins whose effect is order, repetition or a time limit of their own are switched off by name, with what
# repositories declare for them kept valid: their markers, and their options in configuration files (`ini`).
_OFF = ("randomly", "random_order", "rerunfailures", "flaky", "timeout")
_GONE = "of a plugin that is switched off"
_MARKERS = (
    f"flaky(reruns, reruns_delay, condition, only_rerun, rerun_except, reason, max_runs, min_passes): {_GONE}",
    f"random_order(disabled): {_GONE}",
    f"timeout(timeout, method, func_only, disable_debugger_detection): {_GONE}",
)
_INI = tuple(
    """reruns reruns_delay rerun_except only_rerun max_reruns retries random_order_bucket
    timeout timeout_method timeout_func_only timeout_disable_debugger_detection session_timeout""".split()
)


@dataclass(frozen=True)
class PytestRunner:
    """See `Runner`. `arguments` are what stays of Base's `addopts`."""

    discovery: Discovery
    arguments: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    """What Base's `addopts` leaves out of a plain run."""
    import_roots: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()
    """Base's Python files."""
    name: str = "pytest"
    program: str = "run_pytest.py"

    def options(self) -> dict[str, Any]:
        args = ["-q", "--tb=short", "--color=no", "-rN", "--continue-on-collection-errors"]
        args += ["-o", "addopts=", "-o", "cache_dir=/tmp/.pytest_cache"]
        for plugin in _OFF:
            args += ["-p", f"no:{plugin}"]
        for override in self.overrides:
            args += ["-o", override]
        return {
            "args": [*args, *self.arguments],
            "ini": list(_INI),
            "markers": list(_MARKERS),
            "leave_out": dict(self.selection),
        }

    def file_of(self, node: str) -> str | None:
        if "::" in node:
            return node.split("::")[0]
        paths = [p for form in unittest_forms(node) for p in module_files(form[1])]
        return next((p for p in paths if p in self.known), paths[-1] if paths else None)

    def match(self, node: str, collected: Iterable[str]) -> str | None:
        return match_pytest(node, collected)

    def without(self, arguments: Iterable[str]) -> PytestRunner | None:
        unknown = set(arguments)
        left = tuple(a for a in self.arguments if a not in unknown)
        return replace(self, arguments=left) if left != self.arguments else None


def create(files: Mapping[str, bytes | None], options: Mapping[str, Any] | None = None) -> PytestRunner:
    """The runner for Base. `options` may hold the `arguments` a bundle recorded."""
    config = pytest_config.read(files, _home(files))
    neutral = {"log_cli": "log_cli=false", "log_file": "log_file=", "required_plugins": "required_plugins="}
    overrides = tuple(value for key, value in neutral.items() if key in config.keys)
    recorded = (options or {}).get("arguments")
    arguments = tuple(recorded) if recorded is not None else tuple(pytest_config.kept(config.addopts))
    patterns = (*config.python_files, *pytest_config.doctest_globs(arguments))
    return PytestRunner(
        discover(files, patterns, config.testpaths),
        arguments,
        overrides,
        pytest_config.selection(config.addopts),
        import_roots=config.pythonpath,
        known=frozenset(p for p in files if p.endswith(".py")),
    )


def detect(files: Mapping[str, bytes | None]) -> bool:
    """pytest runs unittest suites too, so it is the answer wherever nothing more special fits."""
    return True


def _home(files: Mapping[str, bytes | None]) -> str:
    """Where to look for the configuration from: below `tests/` where that has a configuration of its own."""
    own = [p for p in files if p.rsplit("/", 1)[-1] in ("pytest.ini", ".pytest.ini", "pytest.toml") and "/" in p]
    near = sorted((p.count("/"), p) for p in own if p.split("/")[0] in ("tests", "test"))
    return near[0][1].rsplit("/", 1)[0] if near and not any(p in files for p in pytest_config.CONFIG_NAMES[:4]) else ""
