"""What a reply cost: from the provider's own figure, else from a price list; unknown stays unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from execcritic_roles.models.options import Price

_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


@cache
def builtin() -> Mapping[str, Price]:
    """The price list shipped with the package."""
    listed = yaml.safe_load((files("execcritic_roles.models") / "prices.yaml").read_text("utf-8"))
    return {name: Price.model_validate(price) for name, price in listed.items()}


def price_of(model: str, extra: Mapping[str, Price]) -> Price | None:
    """The price of a model by its exact name or its name without a release date; None when it is not listed."""
    for name in (model, _DATED.sub("", model)):
        if found := extra.get(name) or builtin().get(name):
            return found
    return None


def cost_of(usage: Mapping[str, Any], price: Price | None, inputs: int, cached: int, output: int) -> float | None:
    """US dollars of one reply. A `cost` in the provider's own usage wins; None when neither is known."""
    reported = usage.get("cost")
    if isinstance(reported, (int, float)) and not isinstance(reported, bool) and reported >= 0:
        return float(reported)
    if price is None:
        return None
    per_cached = price.input if price.cached is None else price.cached
    return ((inputs - cached) * price.input + cached * per_cached + output * price.output) / 1_000_000
