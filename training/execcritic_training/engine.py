"""Generation on the CPU over `transformers`: a thread with a batch, and requests from any thread.

`engine`, `batch` and `mini.weights` are all that imports torch without training anything.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from execcritic_scaffold.errors import UsageError
from execcritic_training import chat
from execcritic_training.batch import Batch, Live
from execcritic_training.chat import Generated, Wanted
from execcritic_training.httpjson import HttpError


@dataclass
class _Load:
    path: Path
    version: int
    done: Future[None] = field(default_factory=Future)


class Engine:
    """A model and its tokenizer with a thread that generates. Public methods may be called from any thread.

    `template` None: the tokenizer's own. `window` None: the model's. Raises UsageError for a folder that holds no
    model, or none with a template.
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
        self._live = Batch(self._model, self._finished)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder} holds no tokenizer ({str(error).splitlines()[0]}); check it.") from None
        self.template = template or self._tokenizer.chat_template
        if not isinstance(self.template, str):
            raise UsageError(f"{folder} has no chat template; name one with --template.")
        self.version, self._batch = version, batch
        self.window = window or int(self._model.config.get_text_config().max_position_embeddings)
        eos = self._model.generation_config.eos_token_id
        self.stops = {self._tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])} - {None}
        self._tokenizing = threading.Lock()  # fast tokenizers may not be used by two threads at once
        self._changed = threading.Condition()
        self._waiting: deque[Live | _Load] = deque()
        self._closed = False
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
        live = Live(prompt, wanted)
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

    def _add(self, item: Live | _Load) -> None:
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
                    self._live.admit(new)
                    self._live.step()
            except Exception as error:  # out of memory, above all: these replies fail, the server goes on
                for row in {id(row): row for row in [*self._live.rows, *new]}.values():
                    if not row.done.done():
                        row.done.set_exception(HttpError(500, f"The model failed ({type(error).__name__}: {error})."))
                self._live = Batch(self._model, self._finished)
        for item in [*self._live.rows, *self._waiting]:
            item.done.set_exception(HttpError(503, "The server is closing."))

    def _next(self) -> list[Live] | None:
        """Requests that join now; None at the end. Weights are loaded when their turn has come."""
        with self._changed:
            while not (self._waiting or self._live.rows or self._closed):
                self._changed.wait()
            if self._closed:
                return None
            new: list[Live] = []
            while self._waiting and len(self._live.rows) + len(new) < self._batch:
                item = self._waiting[0]
                if isinstance(item, _Load):
                    if self._live.rows or new:
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
        self._live = Batch(model, self._finished)
        load.done.set_result(None)

    def _finished(self, row: Live) -> bool:
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


def _load(folder: Path, dtype: torch.dtype) -> Any:
    if not folder.is_dir():  # transformers would take it for a name at the hub
        raise UsageError(f"There is no folder {folder}; name the one that holds the model.")
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        said = str(error).strip().splitlines()
        raise UsageError(f"{folder} holds no model ({said[0] if said else type(error).__name__}); check it.") from None
    return model.eval()
