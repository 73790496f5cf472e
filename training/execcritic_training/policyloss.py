"""The policy-gradient loss on ready-made rows: clipped ratios against the sampled log-probabilities, per-token weights.

Sum over trained tokens of -weight * min(r A, clip(r, 1 - low, 1 + high) A), with r the token's probability now over
the one it was sampled with. Nothing else is in it: what was not sampled is not computed, let alone trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from execcritic_training.recipes.schema import Clip
from execcritic_training.steps import Weighted


def token_logprobs(model: Any, rows: Sequence[Weighted], device: Any, entropy: bool = True) -> tuple[Any, Any]:
    """Log-probabilities of the trained tokens of all rows, one after the other, and the entropies of the distributions
    they were drawn from (nats, detached). Two tensors of as many values as there are trained tokens."""
    width = max(len(one.row.ids) for one in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    attend = torch.zeros_like(ids)
    trained = torch.zeros_like(ids, dtype=torch.bool)
    for n, one in enumerate(rows):  # padded on the right: causal attention never looks there
        length = len(one.row.ids)
        ids[n, :length] = torch.tensor(one.row.ids)
        attend[n, :length] = 1
        trained[n, :length] = torch.tensor(list(one.row.mask), dtype=torch.bool)
    at = trained.any(0).nonzero()[:, 0]  # the logits at t - 1 predict the token at t
    logits = model(
        input_ids=ids.to(device), attention_mask=attend.to(device), logits_to_keep=(at - 1).to(device), use_cache=False
    ).logits
    chosen = trained[:, at]
    kept = torch.log_softmax(logits[chosen.to(device)].float(), -1)
    tokens = ids[:, at][chosen].to(device)
    with torch.no_grad():
        spread = -(kept.exp() * kept).sum(-1) if entropy else torch.zeros(len(tokens))
    return kept.gather(-1, tokens[:, None])[:, 0], spread


def policy_loss(now: Any, rows: Sequence[Weighted], clip: Clip) -> tuple[Any, dict[str, float]]:
    """The loss of these rows, to be summed over the rows of an update, and sums over their tokens for the log:
    `tokens`, `clipped` (tokens without a gradient for it), `kl` (k3 estimate from the sampling policy, nats)."""
    device = now.device
    sampled = torch.tensor([p for one in rows for p in one.row.logprobs or ()], device=device)
    lengths = [one.row.trained for one in rows]
    if len(sampled) != len(now):
        raise ValueError(f"{len(sampled)} sampled log-probabilities for {len(now)} trained tokens")
    advantage = torch.tensor([one.advantage for one in rows], device=device).repeat_interleave(
        torch.tensor(lengths, device=device)
    )
    weight = torch.tensor([one.weight for one in rows], device=device).repeat_interleave(
        torch.tensor(lengths, device=device)
    )
    change = now - sampled
    ratio = change.exp()
    free, held = ratio * advantage, ratio.clamp(1 - clip.low, 1 + clip.high) * advantage
    loss = -(weight * torch.minimum(free, held)).sum()
    with torch.no_grad():
        said = {
            "tokens": float(len(now)),
            "clipped": float((held < free).sum()),
            "kl": float((torch.exp(-change) - 1 + change).sum()),
        }
    return loss, said
