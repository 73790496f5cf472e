"""The `batch` section of the configuration; it may change between two starts of one batch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from execcritic.batch.images import ImageSettings


class BatchSettings(BaseModel):
    """What bounds a batch as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cost: float | None = Field(default=None, gt=0)
    """US dollars for the whole batch, all starts together; None: no limit."""
    instance_cost: float | None = Field(default=None, gt=0)
    """US dollars for one run of one instance; None: what `limits` allows its roles."""
    retries: int = Field(default=1, ge=0)
    """How often a run that failed for the machine's sake is tried again before the end of one start."""
    failures: int = Field(default=20, ge=0)
    """So many runs in a row that did not finish stop the batch; 0: none do."""
    free_mb: int = Field(default=2048, ge=0)
    """No run is started with less free disk than this."""
    images: ImageSettings = ImageSettings()
