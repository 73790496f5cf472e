"""A chat server on the CPU over `transformers`: `python -m execcritic_training.server --model FOLDER`.

Requests that wait together are generated together, and later ones join at any step. It gives token ids and
log-probabilities in vLLM's fields (see `chat`), so that what is trained with vLLM can be tried on two cores. Weights
are exchanged by path with `POST /update_weights_from_disk` (SGLang's name and fields) once the replies under way are
finished; each answer says under which version it was made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from execcritic_scaffold.errors import ExecCriticError, UsageError
from execcritic_training import chat
from execcritic_training.httpjson import HttpError, JsonHandler, JsonServer, parse_object
from execcritic_training.records import template_hash

if TYPE_CHECKING:
    from execcritic_training.engine import Engine


class ChatServer(JsonServer):
    """The engine behind HTTP; listens at once, `with server.running():` answers. `port` 0: a free one."""

    def __init__(self, engine: Engine, name: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self.engine, self.name = engine, name
        super().__init__((host, port), _Handler)


class _Handler(JsonHandler):
    server: ChatServer

    def answer(self, method: str, body: bytes) -> None:
        routes: dict[tuple[str, str], Callable[[bytes], None]] = {
            ("GET", "/health"): self._health,
            ("GET", "/v1/models"): self._models,
            ("POST", "/v1/chat/completions"): self._complete,
            ("POST", "/update_weights_from_disk"): self._update,
        }
        route = routes.get((method, self.path))
        if route is None:
            raise HttpError(404, "There is nothing here; the base URL ends in /v1.")
        route(body)

    def _health(self, _: bytes) -> None:
        self.send_json({"status": "ok", "weight_version": self.server.engine.version})

    def _models(self, _: bytes) -> None:
        engine = self.server.engine
        model = {"id": self.server.name, "object": "model", "max_model_len": engine.window}
        model |= {"weight_version": engine.version, "chat_template_sha256": template_hash(engine.template)}
        self.send_json({"object": "list", "data": [model]})

    def _complete(self, raw: bytes) -> None:
        body, engine = parse_object(raw), self.server.engine
        if body.get("model") not in (None, self.server.name):
            raise HttpError(404, f"The model {body['model']!r} does not exist here; it is {self.server.name!r}.")
        tools, wanted = chat.read_tools(body), chat.read_wanted(body)
        done = engine.generate(engine.render(chat.read_messages(body), tools), wanted)
        self.send_json(chat.answer(body, self.server.name, done, tools is not None, engine.piece))

    def _update(self, raw: bytes) -> None:
        body = parse_object(raw)
        path, version = body.get("model_path"), body.get("weight_version")
        if not isinstance(path, str) or type(version) is not int:
            raise HttpError(400, "model_path is a folder and weight_version a whole number.")
        try:
            self.server.engine.load(Path(path), version)
        except UsageError as error:
            raise HttpError(400, str(error)) from None
        self.send_json({"success": True, "message": f"The weights are those of version {version}."})


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until interrupted; what cannot be is one sentence and an exit code."""
    parser = argparse.ArgumentParser(description="A chat server with token ids and log-probabilities, on the CPU.")
    parser.add_argument("--model", type=Path, required=True, help="a folder that transformers loads")
    parser.add_argument("--name", help="the model's name in requests; the folder's name if absent")
    parser.add_argument("--template", type=Path, help="a chat template (jinja); the tokenizer's own if absent")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--version", type=int, default=0, help="of the weights it starts with")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    chosen = parser.parse_args(arguments)
    try:
        _serve(chosen.model, chosen.name, chosen.template, chosen.dtype, chosen.version, chosen.host, chosen.port)
    except ExecCriticError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def _serve(
    model: Path, name: str | None, template: Path | None, dtype: str, version: int, host: str, port: int
) -> None:
    try:
        from execcritic_training.engine import Engine
    except ImportError as error:
        raise UsageError(f"{error.name} is missing; pip install torch 'execcritic[train]'.") from None
    try:
        text = template.read_text("utf-8") if template else None
    except (OSError, ValueError) as error:
        raise UsageError(f"{template} cannot be read ({error}); correct --template.") from None
    engine = Engine(model, template=text, dtype=dtype, version=version)
    server = ChatServer(engine, name or model.resolve().name, host, port)
    print(f"{server.url}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        engine.close()


if __name__ == "__main__":
    main()
