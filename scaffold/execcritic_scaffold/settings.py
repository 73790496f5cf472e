"""Every number of the harness, with METHOD's and HARNESS's defaults. The application fills these from its YAML."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from execcritic_scaffold.task import SETUP_SECONDS

MEGABYTE = 1 << 20


class HarnessSettings(BaseModel):
    """What qualification and verification share. Times in seconds, sizes in megabytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    test_seconds: float = Field(240, gt=0)
    """One run of the selected nodes (METHOD 4)."""
    setup_seconds: float = Field(SETUP_SECONDS, gt=0)
    """All set-up commands of an environment together."""
    memory_mb: int = Field(4096, gt=0)
    disk_mb: int = Field(2048, gt=0)
    processes: int = Field(512, gt=0)
    output_mb: int = Field(8, gt=0)
    guard: Literal["auto", "off", "list"] = "auto"
    guard_nodes: tuple[str, ...] = ()
    """With guard "list": the node ids to guard."""
    guard_seconds: float = Field(60, gt=0)
    """Time the guard may take on Base, by the times measured there."""
    feedback_characters: int = Field(6000, gt=200)
    tier_value_shape: bool = True
    tier_api_absent: bool = True


class QualifySettings(HarnessSettings):
    """Admission (HARNESS 2)."""

    repeats: int = Field(3, ge=1)
    """k: fresh-process runs on Base that must agree (B4)."""
    soundness: bool = True
    """One extra run in which failing assertions go on (B9): evidence about the set-up."""
    rules: dict[str, Literal["hard", "warn", "off"]] = {}
    """Levels of admission rules that differ from `rules.yaml`, by code."""
    max_superseded: int = Field(3, ge=0)
    patch_bytes: int = Field(2 * MEGABYTE, gt=0)


class VerifySettings(HarnessSettings):
    """Verification (HARNESS 3)."""

    repeats: int = Field(2, ge=1)
    twin: bool = True
    """Run the frozen test once more with its assertions falsified; not with a single repeat."""
    patch_bytes: int = Field(64 * MEGABYTE, gt=0)
