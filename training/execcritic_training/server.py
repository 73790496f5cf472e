"""A chat server on the CPU over `transformers`: `python -m execcritic_training.server --model FOLDER`.

Requests that wait together are generated together, and later ones join at any step. It gives token ids and
log-probabilities in vLLM's fields (see `chat`), so that what is trained with vLLM can be tried on two cores. Weights
are exchanged by path with `POST /update_weights_from_disk` (SGLang's name and fields) once the replies under way are
finished; each answer says under which version it was made.

The only module here, with `mini.weights`, that imports torch.
"""

from __future__ import annotations

import argparse
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from execcritic_scaffold.errors import UsageError
from execcritic_training import chat
from execcritic_training.chat import Generated, Wanted
from execcritic_training.httpjson import HttpError, JsonHandler, JsonServer, parse_object
from execcritic_training.records import template_hash


@dataclass
class _Live:
    """A reply that is being generated: one row of the batch."""

    prompt: list[int]
    wanted: Wanted
    done: Future[Generated] = field(default_factory=Future)
    output: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    random: torch.Generator = field(default_factory=torch.Generator)


@dataclass
class _Load:
    path: Path
    version: int
    done: Future[None] = field(default_factory=Future)


class Engine:
    """A model and its tokenizer with a thread that generates. Public methods may be called from any thread.

    `template` None: the tokenizer's own. Raises UsageError for a folder that holds no model, or one without a template.
    """

    def __init__(
        self,
        folder: Path,
        *,
        template: str | None = None,
        dtype: str = "float32",
        version: int = 0,
        batch: int = 32,
        window: int | None = None,
    ) -> None:
        self._dtype = getattr(torch, dtype)
        self._model = _load(folder, self._dtype)
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.template = template or self._tokenizer.chat_template
        if not isinstance(self.template, str):
            raise UsageError(f"{folder} has no chat template; name one with --template.")
        self.version, self._batch = version, batch
        self.window = window or int(self._model.config.get_text_config().max_position_embeddings)
        eos = self._model.generation_config.eos_token_id
        self.stops = {self._tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])} - {None}
        self._tokenizing = threading.Lock()  # fast tokenizers may not be used by two threads at once
        self._changed = threading.Condition()
        self._waiting: deque[_Live | _Load] = deque()
        self._closed = False
        self._rows: list[_Live] = []
        self._cache: Any = None
        self._mask = torch.empty(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def render(self, messages: Sequence[Any], tools: Sequence[Any] | None = None, *, reply: bool = True) -> list[int]:
        """Token ids of a conversation, with the opening of a reply at its end. Raises HttpError for messages that the
        template refuses."""
        with self._tokenizing:
            try:
                text = self._tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) if tools else None,
                    chat_template=self.template,
                    add_generation_prompt=reply,
                    tokenize=False,
                )
            except Exception as error:  # whatever the template does with what it did not expect
                raise HttpError(400, f"The chat template refuses these messages ({error}).") from None
            ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            return ids

    def generate(self, prompt: list[int], wanted: Wanted) -> Generated:
        """One reply; returns when it is finished. Raises HttpError where it does not fit, or the machine failed."""
        if not prompt or len(prompt) + (wanted.max_tokens or 1) > self.window:
            raise chat.too_long(self.window, len(prompt), wanted.max_tokens)
        live = _Live(prompt, wanted)
        if wanted.seed is None:
            live.random.seed()
        else:
            live.random.manual_seed(wanted.seed)
        self._add(live)
        return live.done.result()

    def load(self, path: Path, version: int) -> None:
        """Exchange the weights when the replies under way are finished. Raises UsageError; the old ones then stay."""
        load = _Load(path, version)
        self._add(load)
        load.done.result()

    def piece(self, token: int) -> str:
        with self._tokenizing:
            return str(self._tokenizer.decode([token]))

    def score(self, prompt: Sequence[int], output: Sequence[int]) -> list[float]:
        """Log-probabilities of `output` after `prompt` in one pass, to compare with those that were sampled."""
        ids = torch.tensor([[*prompt, *output]])
        with torch.inference_mode():
            logits = self._model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float()
        scores = torch.log_softmax(logits, -1)
        values: list[float] = scores.gather(1, torch.tensor([list(output)]).T)[:, 0].tolist()
        return values

    def close(self) -> None:
        """Ends the thread; what was waiting fails. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _add(self, item: _Live | _Load) -> None:
        with self._changed:
            if self._closed:
                raise HttpError(503, "The server is closing.")
            self._waiting.append(item)
            self._changed.notify_all()

    # -- in the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (new := self._next()) is not None:
            try:
                with torch.inference_mode():
                    self._admit(new)
                    if self._rows:
                        self._step()
            except Exception as error:  # out of memory, above all: these replies fail, the server goes on
                for row in {id(row): row for row in [*self._rows, *new]}.values():
                    if not row.done.done():
                        row.done.set_exception(HttpError(500, f"The model failed ({type(error).__name__}: {error})."))
                self._rows, self._cache = [], None
        for item in [*self._rows, *self._waiting]:
            item.done.set_exception(HttpError(503, "The server is closing."))

    def _next(self) -> list[_Live] | None:
        """Requests that join now; None at the end. Weights are loaded when their turn has come."""
        with self._changed:
            while not (self._waiting or self._rows or self._closed):
                self._changed.wait()
            if self._closed:
                return None
            new: list[_Live] = []
            while self._waiting and len(self._rows) + len(new) < self._batch:
                item = self._waiting[0]
                if isinstance(item, _Load):
                    if self._rows or new:
                        break  # nothing overtakes it, or it would wait for ever
                    self._exchange(item)
                else:
                    new.append(item)
                self._waiting.popleft()
            return new

    def _exchange(self, load: _Load) -> None:
        try:
            model = _load(load.path, self._dtype)
            if {k: v.shape for k, v in model.state_dict().items()} != {
                k: v.shape for k, v in self._model.state_dict().items()
            }:
                raise UsageError(f"{load.path} holds another model than the one that is served; name its checkpoint.")
        except UsageError as error:
            load.done.set_exception(error)
            return
        self._model, self.version = model, load.version
        load.done.set_result(None)

    def _admit(self, new: list[_Live]) -> None:
        """Read the prompts of new rows and sample their first tokens."""
        if not new:
            return
        width = max(len(row.prompt) for row in new)
        pad = [width - len(row.prompt) for row in new]
        ids = torch.tensor([[0] * n + row.prompt for n, row in zip(pad, new, strict=True)])
        mask = torch.tensor([[0] * n + [1] * (width - n) for n in pad])
        cache = DynamicCache(config=self._model.config)
        logits = self._forward(ids, mask, cache)
        if not self._rows:
            self._cache, self._mask = cache, mask
        else:
            wide = max(width, self._mask.shape[1])
            _widen(self._cache, wide)
            _widen(cache, wide)
            for ours, theirs in zip(self._cache.layers, cache.layers, strict=True):
                ours.keys = torch.cat([ours.keys, theirs.keys])
                ours.values = torch.cat([ours.values, theirs.values])
            self._mask = torch.cat([_left(self._mask, wide, 1), _left(mask, wide, 1)])
        fresh = len(self._rows)
        self._rows += new
        self._sample(fresh, logits)

    def _step(self) -> None:
        """One more token for every row."""
        ids = torch.tensor([[row.output[-1]] for row in self._rows])
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], 1)
        self._sample(0, self._forward(ids, self._mask, self._cache))

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        """Logits after the last token of each row."""
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = self._model(
            input_ids=ids, attention_mask=mask, position_ids=places, cache=cache, use_cache=True, logits_to_keep=1
        )
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits

    def _sample(self, first: int, logits: torch.Tensor) -> None:
        """A token for the rows from `first` on; rows that are finished leave the batch."""
        scores = torch.log_softmax(logits, -1)
        for row, each in zip(self._rows[first:], scores, strict=True):
            token = _choose(each, row.wanted, row.random)
            row.output.append(token)
            row.logprobs.append(float(each[token]))
        going = [n for n, row in enumerate(self._rows) if n < first or not self._finished(row)]
        if len(going) < len(self._rows):
            self._rows = [self._rows[n] for n in going]
            if not going:
                self._cache = None
                return
            self._cache.batch_select_indices(torch.tensor(going))
            self._mask = self._mask[going]
            if unused := int(self._mask.any(0).int().argmax()):  # columns that only the longest rows needed
                self._mask = self._mask[:, unused:]
                for layer in self._cache.layers:
                    layer.keys, layer.values = layer.keys[:, :, unused:], layer.values[:, :, unused:]

    def _finished(self, row: _Live) -> bool:
        ended = row.output[-1] in self.stops
        with self._tokenizing:
            last = row.output[:-1] if ended else row.output
            full = (
                len(row.output) >= (row.wanted.max_tokens or self.window)
                or len(row.prompt) + len(row.output) >= self.window
            )
            if not (ended or full or row.wanted.stop):
                return False
            text = str(self._tokenizer.decode(last, skip_special_tokens=True))
        found = [at for stop in row.wanted.stop if (at := text.find(stop)) >= 0]
        if not (ended or full or found):
            return False
        finish = "stop" if ended or found else "length"
        text = text[: min(found)] if found else text
        row.done.set_result(Generated(row.prompt, row.output, row.logprobs, text, finish, self.version))
        return True


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


def _load(folder: Path, dtype: torch.dtype) -> Any:
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        said = str(error).strip().splitlines()
        raise UsageError(f"{folder} holds no model ({said[0] if said else type(error).__name__}); check it.") from None
    return model.eval()


def _choose(scores: torch.Tensor, wanted: Wanted, random: torch.Generator) -> int:
    if wanted.temperature == 0:
        return int(scores.argmax())
    chances = torch.softmax(scores / wanted.temperature, -1)
    if wanted.top_p < 1:
        ordered, places = chances.sort(descending=True)
        ordered[ordered.cumsum(0) - ordered >= wanted.top_p] = 0  # the first that passes it still counts
        return int(places[torch.multinomial(ordered, 1, generator=random)])
    return int(torch.multinomial(chances, 1, generator=random))


def _widen(cache: Any, width: int) -> None:
    for layer in cache.layers:
        layer.keys, layer.values = _left(layer.keys, width, 2), _left(layer.values, width, 2)


def _left(tensor: torch.Tensor, width: int, axis: int) -> torch.Tensor:
    """Zeros before what is there, so that the axis is `width` long."""
    missing = width - tensor.shape[axis]
    if not missing:
        return tensor
    shape = [*tensor.shape[:axis], missing, *tensor.shape[axis + 1 :]]
    return torch.cat([tensor.new_zeros(shape), tensor], axis)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A chat server with token ids and log-probabilities, on the CPU.")
    parser.add_argument("--model", type=Path, required=True, help="a folder that transformers loads")
    parser.add_argument("--name", help="the model's name in requests; the folder's name if absent")
    parser.add_argument("--template", type=Path, help="a chat template (jinja); the tokenizer's own if absent")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--version", type=int, default=0, help="of the weights it starts with")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    template = chosen.template.read_text("utf-8") if chosen.template else None
    engine = Engine(chosen.model, template=template, dtype=chosen.dtype, version=chosen.version)
    server = ChatServer(engine, chosen.name or chosen.model.resolve().name, chosen.host, chosen.port)
    print(f"{server.url}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        engine.close()


if __name__ == "__main__":
    main()
