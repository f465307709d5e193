"""Left-to-right chains: step k draws token k of a sequence, given its prompt and the tokens before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.base import Ends
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.oracles.causal import SAME, CausalFunction, CausalOracle, FirstGuess, LastAnswer, as_guess
from drawahead.oracles.compiled import CompiledOracle
from drawahead.oracles.condition import Condition, Conditions, checked, of_samples, on_device
from drawahead.oracles.left_to_right import LeftToRight
from drawahead.oracles.remote import RemoteOracle
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import as_device, short, whole

End = int | Sequence[int] | Callable[[Tensor, Tensor], Tensor] | Ends | None
_EMPTY = "prompt must have at least one token, such as the one that a sequence begins with"


@final
class CausalChain(TokenChain):
    """Draws sequences of up to `max_length` tokens from a left-to-right model.

    `model` is a callable `tokens (b, n) -> log-probabilities (b, n, q)` of the next token after each of them; or a
    `CausalOracle`, which may have a cache. `prompt` holds the tokens before the sample: (m,) for all samples, or a row
    for each sample, or a list of token lists of different lengths. It has at least one token, such as one that means
    "beginning".

    `end` is a token, or several, that end a sample; or a rule `(tokens (b, max_length), lengths (b,)) -> (b,) bool` on
    committed tokens, with -1 after them. Samples are (num_samples, max_length), with -1 after their end; `lengths`
    counts their tokens, including the end token.

    `first_guess` says how to guess a step that no answer is about yet: `LastAnswer()`, `Above(stride)`, `Uniform()`,
    `Ngram(k)`, or a function `(tokens (c, L), ahead (c,)) -> log-probabilities (c, q)` of the prompt and the tokens
    drawn or guessed so far, with -1 after them. It changes the number of rounds, never a sample.

    `condition`, `numbers` and `law_dtype` are those of `TokenChain`; the model is called with the rows of a condition.
    """

    foresees = False

    def __init__(
        self,
        model: CausalOracle | TokenOracle | Callable[..., Tensor],
        *,
        vocab_size: int | None = None,
        max_length: int,
        prompt: Any,
        end: End = None,
        first_guess: FirstGuess | Callable[[Tensor, Tensor], Tensor] | None = None,
        condition: Condition = None,
        numbers: Tensor | None = None,
        law_dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        length = whole("max_length", max_length, 1)
        self.max_length, self.first_guess = length, as_guess(LastAnswer() if first_guess is None else first_guess)
        self.prompt = _checked_prompt(prompt)
        lengths = (self.prompt != HIDDEN).sum(1)
        if isinstance(model, TokenOracle):  # one that was made here before
            oracle = _rewrapped(model, length, self.first_guess, int(lengths.min()))
        else:
            causal = _as_model(model, vocab_size, device)
            oracle = LeftToRight(causal, length, self.first_guess, int(lengths.min()))
        if vocab_size is not None and whole("vocab_size", vocab_size) != oracle.vocab_size:
            raise InputError(f"vocab_size is that of the model, {oracle.vocab_size}: leave it out")
        self.vocab_size = oracle.vocab_size
        most = _longest(oracle)
        if most is not None and int(lengths.max()) + length > most:
            raise InputError(
                f"the prompt has {int(lengths.max())} tokens, and max_length is {length}: the model reads {most} at "
                "most, prompt and sample together; shorten one of them"
            )
        self.end = end
        self.ends = end if end is None or isinstance(end, Ends) else _Ending(end, oracle.vocab_size)
        own = checked(condition, oracle.device)
        if "prompt" in own:
            raise InputError("condition['prompt']: give prompt=, not a condition of that name")
        told_all = own | {"prompt": self.prompt.to(oracle.device)}
        if not isinstance(model, TokenOracle):
            _check_causal(causal, told_all)
        super().__init__(oracle, order=torch.arange(length), condition=told_all, numbers=numbers, law_dtype=law_dtype)

    @property
    def ends_early(self) -> bool:
        return self.ends is not None

    def replace(self, **changes: Any) -> CausalChain:
        """The same chain with other arguments; a condition may include a `prompt`."""
        condition = changes.get("condition", self.condition)
        condition = {"condition": condition} if isinstance(condition, Tensor) else dict(condition or {})
        prompt = condition.pop("prompt", None)
        if prompt is not None and "condition" in changes:
            changes = {"prompt": prompt, **changes}
        return super().replace(**changes | {"condition": condition or None})

    def compiled(self) -> CausalChain:
        return self.replace(model=CompiledOracle(self.oracle))

    def without_model(self) -> CausalChain:
        return self.replace(model=RemoteOracle(self.oracle), condition=on_device(self.condition, "cpu"))

    def lengths(self, samples: Tensor) -> Tensor:
        """How many tokens each of these samples (num_samples, max_length) has."""
        return (samples != HIDDEN).sum(-1)

    def deciding(self) -> dict[str, Any]:
        return super().deciding() | {"max_length": self.max_length, "end": self.end}


@final
class _Ending(Ends):
    """Where samples end."""

    def __init__(self, end: Any, vocab_size: int) -> None:
        self.rule = end if callable(end) else None
        if self.rule is None:
            self.tokens = [end] if isinstance(end, int) else list(end)
            if not self.tokens or not all(0 <= token < vocab_size for token in self.tokens):
                raise InputError(f"end must be among the tokens 0 ... {vocab_size - 1}, not {short(end)}")

    def __call__(self, tokens: Tensor, before: Tensor, now: Tensor, most: int, condition: Conditions) -> Tensor:
        n = tokens.shape[1]
        length = before[:, None] + torch.arange(1, most + 1, device=tokens.device)  # (r, most)
        if self.rule is None:
            last = tokens.gather(1, (length - 1).clamp(max=n - 1))
            over = torch.stack([last == token for token in self.tokens]).any(0)
        else:
            known = torch.arange(n, device=tokens.device) < length[..., None]  # (r, most, n)
            shown = torch.where(known, tokens[:, None], HIDDEN).flatten(0, 1)
            over = self.rule(shown, length.clamp(max=n).flatten()).view_as(length)
        ended: Tensor = torch.where(over & (length <= now[:, None]), length, n).amin(1)
        return ended


def _checked_prompt(prompt: Any) -> Tensor:
    """Prompts (1 or num_samples, m), padded with HIDDEN on the right."""
    if isinstance(prompt, Sequence) and prompt and all(isinstance(one, Tensor | Sequence) for one in prompt):
        rows = [_checked_prompt(one)[0] for one in prompt]
        padded: Tensor = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=HIDDEN)
        return padded
    try:
        tokens = torch.as_tensor(prompt).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"prompt must be tokens, (m,) or (num_samples, m): {error}") from None
    if not tokens.numel():
        raise InputError(_EMPTY)
    if tokens.is_floating_point() or tokens.dtype == torch.bool or tokens.dim() not in (1, 2):
        raise InputError(f"prompt must be tokens, (m,) or (num_samples, m), not {tokens.dtype} {tuple(tokens.shape)}")
    tokens = tokens.to(torch.int64).view(-1, tokens.shape[-1])
    known = tokens != HIDDEN
    if not bool(known[:, 0].all()):
        raise InputError(_EMPTY)
    if bool((tokens < HIDDEN).any()) or bool((known[:, 1:] & ~known[:, :-1]).any()):
        raise InputError("prompt must be tokens from 0 on, with padding (-1) only behind them")
    return tokens


def _as_model(model: Any, vocab_size: int | None, device: torch.device | str | None) -> CausalOracle:
    if isinstance(model, CausalOracle):
        return model
    if vocab_size is None:
        raise InputError("a plain callable needs vocab_size= to be used as a model")
    weights = next(iter(model.parameters()), None) if isinstance(model, torch.nn.Module) else None
    home = torch.device("cpu") if weights is None else weights.device
    home = home if device is None else as_device("device", device)
    return CausalFunction(model, whole("vocab_size", vocab_size, 1), home)


def _longest(oracle: Any) -> int | None:
    """How many tokens the model inside can read, where it is here and says so."""
    while not isinstance(oracle, LeftToRight):
        if (oracle := getattr(oracle, "oracle", None)) is None:
            return None
    return oracle.model.max_length


def _rewrapped(oracle: TokenOracle, length: int, guess: FirstGuess, shortest: int) -> TokenOracle:
    """An oracle of another chain for this one."""
    if isinstance(oracle, LeftToRight):
        return LeftToRight(oracle.model, length, guess, shortest)
    if oracle.length != length:
        raise InputError(f"this oracle is for max_length={oracle.length}: make the chain from the model itself")
    return oracle


@torch.no_grad()
def _check_causal(model: CausalOracle, condition: dict[str, Tensor]) -> None:
    """Refuse a model whose answers have another vocabulary, or depend on later tokens."""
    rows = of_samples(condition, torch.zeros(2, dtype=torch.int64))
    prompt = rows.pop("prompt")
    prompt = prompt[:, : int((prompt[0] != HIDDEN).sum())]
    later = torch.tensor([[0], [model.vocab_size - 1]], device=prompt.device)
    at = prompt.shape[1] - 1
    answers = model.rows(torch.cat([prompt, later], dim=1), at, **rows)
    if answers.shape[-1] != model.vocab_size:
        raise InputError(f"vocab_size is {model.vocab_size}, but the model answers {answers.shape[-1]} tokens")
    first, second = answers[:, 0].double().exp()
    if float((first - second).abs().sum()) / 2 > SAME:
        raise InputError(
            "the model's answer changes with later tokens, so it is not a left-to-right model: draw a bidirectional "
            "one as a TokenChain, or give it a causal mask"
        )
