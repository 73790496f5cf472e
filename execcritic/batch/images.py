"""What the image of an instance is called: by its row, else by the publisher's naming rule; from which registry."""

from __future__ import annotations

import contextlib
import functools
import importlib
import platform
import re
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Architecture = Literal["x86_64", "arm64"]
MACHINES: dict[str, Architecture] = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
"""What engines and kernels call the architectures that images are published for."""
LENGTH = 512
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?/)?"
_NAME = re.compile(rf"{_HOST}{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII)


class ImageSettings(BaseModel):
    """The `batch.images` section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    registry: str | None = None
    """A registry, with a path or not, that images are pulled from instead of their own (`localhost:5000/mirror`)."""
    tag: str = "latest"
    """Of names that the rule makes; a row's own name keeps its own."""
    architecture: Architecture | None = None
    """None: this machine's. Another one is emulated by the engine, where it can."""
    pulls: int = Field(default=4, gt=0)
    """Images pulled at the same time."""
    free_gb: float = Field(default=10, ge=0)
    """Free disk below which no pull is started."""
    patience_seconds: float = Field(default=900, ge=0)
    """How long a registry that is down is asked again for one image."""

    @property
    def wanted(self) -> Architecture:
        """The architecture that images are to have."""
        return self.architecture or MACHINES.get(platform.machine().lower(), "x86_64")


def is_name(text: str) -> bool:
    """Whether a text can be the name of an image: lower case but for the tag; with a digest or without."""
    return len(text) <= LENGTH and _NAME.fullmatch(text) is not None


def published(instance: str, namespace: str, settings: ImageSettings) -> str:
    """The name under which the evaluator of SWE-bench and its relatives publish an instance's image.

    The installed `swebench` package is asked, 5.x or 4.1; without one, the same rule is applied here.
    """
    rule = _official() or by_table
    return rule(instance, namespace, settings.wanted, settings.tag)


def by_table(instance: str, namespace: str, architecture: Architecture, tag: str) -> str:
    """The rule itself: lower case, and `_1776_` for the two underscores that a registry refuses in a name."""
    return f"{namespace}/sweb.eval.{architecture}.{instance.lower()}:{tag}".replace("__", "_1776_")


@functools.cache
def _official() -> Callable[[str, str, Architecture, str], str] | None:
    """The rule of the installed `swebench`, None where there is none or its parts lie elsewhere."""
    with contextlib.suppress(ImportError):
        spec: Any = importlib.import_module("swebench.image_builder.image_spec").ImageSpec  # 5.x

        def by_5(instance: str, namespace: str, architecture: Architecture, tag: str) -> str:
            arch = "amd64" if architecture == "x86_64" else architecture
            return str(spec(instance, "FROM scratch", namespace, tag, arch).name)

        return by_5
    with contextlib.suppress(ImportError):
        whole: Any = importlib.import_module("swebench.harness.test_spec.test_spec").TestSpec  # 4.1

        def by_4(instance: str, namespace: str, architecture: Architecture, tag: str) -> str:
            unused: dict[str, Any] = dict.fromkeys(("repo", "version", "language"), "")
            unused |= {f"{name}_script_list": [] for name in ("repo", "eval", "env")}
            made = whole(
                **unused, instance_id=instance, arch=architecture, FAIL_TO_PASS=[], PASS_TO_PASS=[], docker_specs={},
                namespace=namespace, instance_image_tag=tag,
            )  # fmt: skip
            return str(made.instance_image_key)

        return by_4
    return None


def from_registry(name: str, registry: str | None) -> str:
    """The name of the same image in another registry; unchanged where none is given.

    Of the name's own registry nothing is kept, of its path everything: a mirror is filled by `docker tag` and
    `docker push` under just that name.
    """
    if not registry:
        return name
    host, slash, path = name.partition("/")
    foreign = slash and ("." in host or ":" in host or host == "localhost")
    return f"{registry.rstrip('/')}/{path if foreign else name}"
