"""Which service, and how patient to be with it. The token is no setting: it comes from the environment alone."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

TOKEN = "EXECCRITIC_SANDBOX_TOKEN"
"""The variable that holds the service's key."""


class RemoteSettings(BaseModel):
    """Section `sandbox.remote`. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = None
    patience_seconds: float = Field(default=300, gt=0)
    """How long a service that is overloaded or out of reach is asked again."""
    ready_seconds: float = Field(default=1800, gt=0)
    """Until a new sandbox must be ready: its image may have to be pulled."""
    heartbeat_seconds: float = Field(default=60, gt=0)

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be the http or https address of the service")
        if parts.username or parts.password or parts.query:
            raise ValueError(f"must hold no credentials; the service's key belongs in {TOKEN}")
        return url.rstrip("/")
