"""How a model is called: the `model` section of the configuration."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class Price(BaseModel):
    """US dollars per million tokens. `cached` None: cached input costs what input costs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    output: float = Field(ge=0)


class ModelOptions(BaseModel):
    """Everything about the endpoint and the sampling; times in seconds. None leaves a parameter out of the request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str | None = None
    """Root of an OpenAI-compatible endpoint (usually ends in /v1); None: OPENAI_BASE_URL, else OpenAI."""
    api_key: SecretStr | None = None
    """None: OPENAI_API_KEY. A loopback endpoint needs none."""
    protocol: Literal["tools", "text"] = "tools"
    """`text`: for models without tool calls, which then write one fenced block a reply (docs/models.md)."""
    temperature: float | None = 0.6
    max_output_tokens: int | None = Field(default=8192, ge=1)
    max_output_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """Name of that parameter; None: `max_completion_tokens` at OpenAI itself, `max_tokens` elsewhere."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body (`top_p`, `seed`, `reasoning_effort`, `chat_template_kwargs`, …)."""
    request_seconds: float = Field(default=600.0, gt=0)
    """Time limit of one request."""
    patience_seconds: float = Field(default=900.0, ge=0)
    """Total time for one reply over all attempts, waits included."""
    connect_seconds: float = Field(default=30.0, ge=0)
    """The same where this endpoint has never given a usable answer: a wrong address should be known soon."""
    backoff_seconds: float = Field(default=1.0, gt=0)
    """First wait between attempts; doubles each time, with jitter."""
    backoff_max_seconds: float = Field(default=60.0, gt=0)
    prices: dict[str, Price] = Field(default_factory=dict)
    """Added to, and winning over, the built-in price list."""
