"""Telling a server of new weights: `POST /update_weights_from_disk`, as our CPU server and SGLang have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx

from execcritic import credentials
from execcritic_scaffold.errors import ModelError


def publisher(url: str, seconds: float = 600.0) -> Callable[[Path, int], None]:
    """Tells the server at `url` of a folder and its version; returns when it answers with those weights. What is
    returned raises ModelError where the server does not take them."""

    def publish(folder: Path, version: int) -> None:
        shown = credentials.masked_url(url)
        body = {"model_path": str(folder.absolute()), "weight_version": version}
        try:
            root = url.rstrip("/").removesuffix("/v1")
            answer = httpx.post(f"{root}/update_weights_from_disk", json=body, timeout=seconds)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelError(f"{shown} was not told of new weights ({error}); start it and resume the run.") from None
        if answer.is_error:
            raise ModelError(
                f"{shown} does not take the weights (HTTP {answer.status_code}: {answer.text[:200]}); check that it "
                "serves this model, and resume the run."
            )

    return publish
