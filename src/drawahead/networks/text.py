"""The shipped text model: any-order characters, trained on the State of the Union addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.networks.files import trained
from drawahead.networks.order_transformer import OrderTransformer
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import number, whole, wholes

if TYPE_CHECKING:
    from drawahead.show import View

LENGTH = 256
"""The most characters."""
ALPHABET = " etaoinsrhdlcumfpgwybvkxjqzETAOINSRHDLCUMFPGWYBVKXJQZ0123456789.,;:'\"-?!$%()"
_TOKEN = {letter: i for i, letter in enumerate(ALPHABET)}
BLANK = "_"
TEMPERATURE = 0.5
"""By default: the lower, the fewer misspelt words, and the duller."""
_PLAIN = dict(zip("\u2019\u2018\u201c\u201d\u2014\u2013\u2011\n\t", "''\"\"---  ", strict=True))


def to_tokens(text: str) -> Tensor:
    """The tokens of a text (length,); typographic quotes and dashes become plain, other unknown letters go."""
    plain = (_TOKEN.get(_PLAIN.get(letter, letter)) for letter in text)
    return torch.tensor([token for token in plain if token is not None], dtype=torch.int64)


def to_text(tokens: Tensor) -> str:
    """The text of tokens (length,); hidden ones show as blanks."""
    known = wholes("tokens", tokens, HIDDEN)
    if max(known, default=0) >= len(ALPHABET):
        raise InputError(f"tokens must be below {len(ALPHABET)}, not {max(known)}")
    return "".join(BLANK if token == HIDDEN else ALPHABET[token] for token in known)


@final
class TextModel(TokenOracle):
    """The shipped model as an oracle: `da.sample(da.networks.text())`.

    Each sample is drawn in a random order of its positions, and the distribution is the chain rule's in that order. One
    pass answers a whole path, so `Coupled` refines the whole rest of a text at once.
    """

    one_pass = True
    vocab_size = len(ALPHABET)

    def __init__(self, network: OrderTransformer, length: int = LENGTH, temperature: float = 1.0) -> None:
        if not 1 <= whole("length", length) <= LENGTH:
            raise InputError(f"the text model writes 1 to {LENGTH} characters, not {length}")
        self.network = network
        self.length = length
        self.temperature = number("temperature", temperature, above=0)
        self.device = network.sink.device
        self.bytes_per_query = 40 * 3 * length * len(network.sink)

    def view(self) -> View:
        from drawahead.show import Texts

        return Texts(lambda sample: list(to_text(sample)))

    def rows(self, tokens: Tensor) -> Tensor:
        rank = torch.where(tokens == HIDDEN, 0, -1)
        position = torch.arange(self.length, device=tokens.device).expand_as(tokens)
        return self.path_rows(tokens.clamp(min=0), rank, torch.zeros_like(position), position)

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        logits = self.network(tokens, rank, prefix, position)
        return torch.log_softmax(logits.float() / self.temperature, dim=-1)

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        """Keys and values, the evidence's first."""
        known = rank < 0
        count = known.sum(1, keepdim=True)
        kept = {"seen": self.network.memory(len(tokens), self.length), "first": 1 + count}
        if bool(known.any()):
            most = int(count.max())
            place = (~known).long().argsort(dim=1, stable=True)[:, :most]  # from left to right
            step = torch.arange(most, device=rank.device) - count  # before the first
            place = torch.where(step < 0, place, self.length)
            token = tokens.gather(1, place.clamp(max=self.length - 1))
            self.recalled_rows(kept, token, place, step, step[:, :0], step[:, :0])
        return kept

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        nowhere = self.length + 1
        slot = torch.where(place < self.length, (kept["first"] + step).clamp(max=nowhere), nowhere)
        logits = self.network.extend(kept["seen"], token, place, slot, position, kept["first"] + prefix)
        return torch.log_softmax(logits.float() / self.temperature, dim=-1)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        # Cells come sorted by row: lay them out as a table, padded with queries whose answers are not used.
        count = torch.bincount(row, minlength=len(tokens))
        column = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
        shape = (len(tokens), int(count.max()))
        prefixes, positions = (
            torch.zeros(shape, dtype=torch.int64, device=row.device).index_put((row, column), values)
            for values in (prefix, position)
        )
        return self.path_rows(tokens, rank, prefixes, positions)[row, column]


def text(
    length: int = LENGTH,
    *,
    temperature: float = TEMPERATURE,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TextModel:
    """The text model that comes with drawahead."""
    return TextModel(trained(OrderTransformer(len(ALPHABET)), "text", device, dtype), length, temperature)


def infilling(
    prompt: str,
    *,
    temperature: float = TEMPERATURE,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TokenChain:
    """A chain that fills the blanks of a prompt, one character for each underscore: "My fellow ________, "."""
    letters = [_PLAIN.get(letter, letter) for letter in prompt]
    for i, letter in enumerate(letters):
        if letter not in _TOKEN and letter != BLANK:
            raise InputError(f"character {i} of the prompt, {letter!r}, is not one the text model knows: {ALPHABET}")
    if BLANK not in letters:
        raise InputError(f"the prompt has no blank: write {BLANK} for each character to fill in")
    if len(letters) > LENGTH:
        raise InputError(f"the prompt has {len(letters)} characters; the text model takes {LENGTH} at most")
    model = text(len(letters), temperature=temperature, device=device, dtype=dtype)
    return TokenChain(model, evidence=torch.tensor([_TOKEN.get(letter, HIDDEN) for letter in letters]))
