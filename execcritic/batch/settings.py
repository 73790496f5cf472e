"""The `batch` section of the configuration; it may change between two starts of one batch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from execcritic.batch.images import ImageSettings


class BatchSettings(BaseModel):
    """What bounds a batch as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: ImageSettings = ImageSettings()
