"""Credentials, kept out of what is written to disk: manifests, crash files, clones, messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

MASK = "***"
_NAME = re.compile(r"(?i)key|token|secret|passw|authorization|credential")
_COUNT = re.compile(r"(?i)tokens$")
_SHORTEST = 6
"""Characters below which a value is too common to be taken out of a text."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a value of this name is a credential (`api_key`, `X-Auth-Token`; not `max_tokens`)."""
    return bool(_NAME.search(name)) and not _COUNT.search(name)


def masked_url(url: str) -> str:
    """A URL without user, password, and values of its query that are credentials by name."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if not parts.scheme or "://" not in url:
        return url
    host = f"{MASK}@{parts.netloc.rpartition('@')[2]}" if _private(parts.netloc, parts.scheme) else parts.netloc
    query = "&".join(_pair(item) for item in parts.query.split("&")) if parts.query else ""
    if host == parts.netloc and query == parts.query:
        return url
    return urlunsplit((parts.scheme, host, parts.path, query, parts.fragment))


def _private(netloc: str, scheme: str) -> bool:
    """In ssh://git@host the user is no secret; in https://TOKEN@host it may be."""
    user, at, _ = netloc.rpartition("@")
    return bool(at) and (scheme != "ssh" or ":" in user)


def _pair(item: str) -> str:
    name, equals, value = item.partition("=")
    return f"{name}={MASK}" if equals and value and is_secret(name) else item


def masked(value: Any, name: str = "") -> Any:
    """A JSON value with every credential in it replaced by MASK: by the name of its field, or inside URLs."""
    if isinstance(value, Mapping):
        return {key: masked(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, name) for item in value]
    if isinstance(value, str):
        return MASK if value and is_secret(name) else masked_urls(value)
    return value


def masked_urls(text: str) -> str:
    """A text with the credentials taken out of every URL in it."""
    return _URL.sub(lambda found: masked_url(found[0]), text)


def holds_mask(value: Any) -> bool:
    """Whether `masked` took anything out of this value."""
    if isinstance(value, Mapping):
        return any(holds_mask(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(holds_mask(item) for item in value)
    return isinstance(value, str) and (value == MASK or f"//{MASK}@" in value or f"={MASK}" in value)


def hidden(text: str, argv: Iterable[str], environ: Mapping[str, str]) -> str:
    """A text without the credentials that the command line and the environment hold."""
    values = {value.strip() for name, value in environ.items() if is_secret(name)}
    for word in argv:
        key, equals, value = word.removeprefix("--set=").partition("=")
        if equals and (is_secret(key) or key.startswith("model.extra")):
            values |= {value.strip(), *re.findall(r"[^\s{}\[\],:'\"]+", value)}
    for value in sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(value, MASK)
    return masked_urls(text)
