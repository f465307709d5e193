"""A transformers model in two halves: an encoder for whole sequences, a head for the cells that are wanted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.errors import InputError


@final
class Network:
    """A transformers model, asked for the logits of all positions or of some cells.

    Where the model is an encoder and a head that reads positions one by one, as nearly all are, the head with its
    large vocabulary is run on the wanted cells only. Whether it is so is tried once, on `probe`. The halves are taken
    from the model whenever it is asked: it may have been given another layer. `seen` is how the model is looked at.
    """

    def __init__(
        self, model: nn.Module, probe: dict[str, Tensor], seen: Callable[[nn.Module], nn.Module] | None = None
    ) -> None:
        self.model = model
        self.seen = seen
        self.encoder: str | None = None
        """The name of the encoder in the model, where the head can be run apart."""
        try:
            logits = self.logits(probe)
            if logits.shape[:-1] != probe["input_ids"].shape:
                raise ValueError(
                    f"for {tuple(probe['input_ids'].shape)} tokens it answers {tuple(logits.shape)} logits"
                )
        except Exception as error:  # any: it is the model's
            raise InputError(
                f"model {type(model).__name__} must answer {', '.join(probe)} with the logits of every position, as "
                f"one of AutoModelForMaskedLM.from_pretrained(...) does: {error}"
            ) from error
        self.vocab_size = logits.shape[-1]
        self._split(probe, logits)

    @property
    def whole_logits(self) -> bool:
        """True when the head cannot be run apart."""
        return self.encoder is None

    def logits(self, inputs: dict[str, Any]) -> Tensor:
        """Logits of all positions (m, n, q)."""
        logits: Tensor = self._seen()(**inputs, return_dict=True).logits
        return logits

    def logits_at(self, inputs: dict[str, Any], context: Tensor, position: Tensor) -> Tensor:
        """Logits of cells (p,), given as pairs of a sequence's index and a position -> (p, q)."""
        if self.encoder is None:
            return self.logits(inputs)[context, position]
        model = self._seen()
        encoder, head = model.get_submodule(self.encoder), replaced(model, self.encoder, _States())
        states = encoder(**inputs, return_dict=True)[0][context, position]  # (p, width)
        logits: Tensor = head(inputs_embeds=states[None], return_dict=True).logits[0]
        return logits

    def _seen(self) -> nn.Module:
        return self.model if self.seen is None else self.seen(self.model)

    def _split(self, probe: dict[str, Tensor], expected: Tensor) -> None:
        prefix = getattr(self.model, "base_model_prefix", "")
        if not isinstance(self.model._modules.get(prefix), nn.Module):
            return
        m, n = expected.shape[:2]
        cell = torch.arange(m * n, device=expected.device)
        self.encoder = prefix
        try:
            error = (self.logits_at(probe, cell // n, cell % n).view_as(expected) - expected).abs().max()
            alike = bool(error <= (1e-3 if expected.element_size() > 2 else 5e-2) * expected.abs().max())
        except Exception:  # any: the model is built in another way
            alike = False
        if not alike:
            self.encoder = None


class _States(nn.Module):
    """Stands in the encoder's place and hands on the hidden states it is given."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> _Output:
        return _Output((inputs_embeds,))


class _Output(tuple[Tensor, ...]):
    """The fields of a transformers output that heads pass on."""

    __slots__ = ()
    hidden_states = attentions = mems = None

    @property
    def last_hidden_state(self) -> Tensor:
        return self[0]


def replaced(module: nn.Module, name: str, child: nn.Module) -> nn.Module:
    """The same module, sharing its weights, with one child replaced. The module given is left as it was."""
    twin = copy.copy(module)
    twin._modules = {**module._modules, name: child}
    return twin


def activation_bytes(network: Network, length: int, streams: int = 1, scores: int = 1) -> int:
    """About the working memory of one sequence: one layer's states, `scores` tables of attention scores, and the
    logits where the head is not run apart."""
    config = getattr(network.model, "config", None)
    hidden = int(getattr(config, "hidden_size", 768))
    inner = int(getattr(config, "intermediate_size", None) or getattr(config, "d_inner", None) or 4 * hidden)
    heads = int(getattr(config, "num_attention_heads", 12))
    numbers = streams * length * (8 * hidden + 2 * inner + scores * heads * length)
    if network.whole_logits:
        numbers += length * network.vocab_size
    return numbers * next(network.model.parameters()).element_size()
