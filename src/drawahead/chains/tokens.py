"""Any-order token chains: step k draws the token at position sigma(k), given the tokens before it in the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from drawahead.chains.base import NARROW, Chain, Tally
from drawahead.chains.token_paths import Ends, TokenPaths
from drawahead.errors import InputError
from drawahead.oracles.compiled import CompiledOracle, described
from drawahead.oracles.condition import Condition, check_rows, checked, of_samples, on_cpu
from drawahead.oracles.remote import RemoteOracle
from drawahead.oracles.tokens import HIDDEN, FunctionOracle, TokenOracle
from drawahead.randomness import Purpose, Stream
from drawahead.validate import law_precision, short, whole

Order = Tensor | Sequence[int] | str | None
_GOLDEN = 0.6180339887498949


class TokenChain(Chain):
    """Draws sequences of [q]^n from an any-order oracle.

    `oracle` is a `TokenOracle`, or a callable `tokens (m, n) -> log-probability rows (m, n, q)` with `length` and
    `vocab_size` given. `order` is None (a uniformly random order for each sample, which is what makes speculation
    work), or "spread" (see below), or a permutation (n,), or one for each sample (num_samples, n). `evidence` is a
    sequence (n,), or one for each sample, in which known positions hold their token and all others `HIDDEN`: known
    positions are never drawn.

    In the order "spread" the positions drawn so far are always spread evenly over the sequence: it follows multiples
    of the golden ratio from a random start. Where neighbours depend on each other most, as in text, it takes fewer
    rounds than a uniformly random order, for which alone there are theorems.

    `condition` tells the oracle more about each sample: a tensor, or a dictionary of tensors, with a row for each
    sample or one for all. A callable is called as `oracle(tokens, **rows)`, with the rows that belong to its
    sequences; a `TokenOracle` needs a method `conditioned`.

    `numbers` are those by which each sample's noise is found (num_samples,), if not its own: so that a sample does not
    depend on which others a chain holds.

    `law_dtype` is what laws are worked out in and noise is drawn in: float64, or float32 on devices that have no other
    (or where it is asked for, see docs/exact.md).
    """

    reads_rows = True
    choice_changes_samples = False
    ends: Ends | None = None
    """Where its samples end, if that is random."""
    settings: ClassVar[tuple[str, ...]] = ("oracle", "order", "evidence", "condition", "numbers", "law_dtype")

    def __init__(
        self,
        oracle: TokenOracle | Callable[[Tensor], Tensor],
        *,
        length: int | None = None,
        vocab_size: int | None = None,
        order: Order = None,
        evidence: Any = None,
        condition: Condition = None,
        numbers: Tensor | None = None,
        law_dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(oracle, TokenOracle):
            if not callable(oracle):
                raise InputError(f"an oracle must be a TokenOracle or a callable, not {type(oracle).__name__}")
            if length is None or vocab_size is None:
                raise InputError("a plain callable needs length= and vocab_size= to be used as an oracle")
            oracle = FunctionOracle(oracle, length, vocab_size)
        given = [(length, oracle.length), (vocab_size, oracle.vocab_size)]
        if any(own is not None and whole("length and vocab_size", own) != its for own, its in given):
            raise InputError(
                f"length and vocab_size are those of the oracle, {oracle.length} and {oracle.vocab_size}: "
                "give them only with a plain callable"
            )
        if oracle.length < 1:
            raise InputError("the oracle's length must be at least 1: an empty sequence has nothing to draw")
        self.oracle = oracle
        self.law_dtype = law_precision(law_dtype, oracle.device)
        self.order = self._checked_order(order)
        self.evidence = None if evidence is None else self._checked_evidence(evidence)
        if numbers is not None and (
            not isinstance(numbers, Tensor) or numbers.dim() != 1 or numbers.dtype != torch.int64
        ):
            raise InputError(f"numbers must be a tensor of whole numbers (num_samples,), not {short(numbers)}")
        self.numbers = None if numbers is None else numbers.cpu()
        self.condition = checked(condition, oracle.device)
        if self.condition:
            oracle.conditioned(**of_samples(self.condition, torch.zeros(1, dtype=torch.int64)))  # or it takes none
        self.built = True

    def _drawn(self) -> str:
        return repr(self.oracle)

    def compiled(self) -> TokenChain:
        return self.replace(oracle=CompiledOracle(self.oracle))

    @property
    def note(self) -> str:
        words = [described(self.oracle.parts)] if isinstance(self.oracle, CompiledOracle) else []
        return "; ".join(words + ([] if self.law_dtype == torch.float64 else [NARROW]))

    @property
    def steps(self) -> int:
        n = self.oracle.length
        return n if self.evidence is None else int((self.evidence == HIDDEN).sum(-1).max())

    @property
    def ends_early(self) -> bool:
        return self.ends is not None

    @property
    def model(self) -> TokenOracle:
        return self.oracle

    @property
    def device(self) -> torch.device:
        return self.oracle.device

    @property
    def one_pass(self) -> bool:
        return self.oracle.one_pass and not self.oracle.rereads

    @property
    def answers_paths(self) -> bool:
        return self.oracle.one_pass

    @property
    def replica(self) -> TokenOracle:
        return self.oracle

    def without_model(self) -> TokenChain:
        return self.replace(oracle=RemoteOracle(self.oracle), condition=on_cpu(self.condition))

    @property
    def row_bytes(self) -> int:
        return 8 * self.oracle.vocab_size

    def start(self, seed: int, samples: Tensor, tally: Tally) -> TokenPaths:
        n, rows = self.oracle.length, len(samples)
        numbers = samples if self.numbers is None else self.numbers[samples]
        stream = Stream.of_samples(seed, numbers, self.law_dtype, self.device)
        key = self._order_keys(stream, samples)
        home = key.device
        tokens = torch.zeros(rows, n, dtype=torch.int64, device=home)
        length = torch.full((rows,), n)
        if self.evidence is not None:
            evidence = (self.evidence if self.evidence.dim() == 1 else self.evidence[samples]).expand(rows, n)
            length = (evidence == HIDDEN).sum(-1)
            evidence = evidence.to(home)
            known = evidence != HIDDEN
            tokens = torch.where(known, evidence, 0)
            key = torch.where(known, torch.inf, key)
        order = key.argsort(dim=-1, stable=True)
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=home).expand(rows, n))
        if self.evidence is not None:
            rank = torch.where(rank < length.to(home)[:, None], rank, -1)
        tokens, order, rank = (table.to(self.device) for table in (tokens, order, rank))
        return TokenPaths(
            self.oracle,
            samples,
            torch.zeros(rows, dtype=torch.int64),
            length,
            stream,
            tally,
            tokens,
            order,
            rank,
            of_samples(self.condition, samples),
            ends=self.ends,
        )

    def _order_keys(self, stream: Stream, samples: Tensor) -> Tensor:
        """Numbers whose order is that of the positions (rows, n), in float64: two must hardly ever be equal."""
        n, rows = self.oracle.length, len(samples)
        home = self.device if self.device.type in ("cpu", "cuda") else torch.device("cpu")
        source = Stream(stream.keys.to(home))
        if self.order is None:
            key = source.uniform(Purpose.ORDER, torch.arange(n, device=home).expand(rows, n))
            rates = self.oracle_of(samples).order_rates
            # Waiting times: a position of twice the rate waits half as long.
            return key if rates is None else -torch.log1p(-key) / rates.to(home)
        if isinstance(self.order, str):
            shift = source.uniform(Purpose.ORDER, torch.zeros(rows, 1, dtype=torch.int64, device=home))
            return (shift + _GOLDEN * torch.arange(n, dtype=torch.float64, device=home)) % 1.0
        order = self.order if self.order.dim() == 1 else self.order[samples]
        return order.argsort(-1).expand(rows, n).to(home, torch.float64)

    def captured_parts(self) -> dict[str, Any]:
        return {"oracle": self.oracle, "law_dtype": self.law_dtype}  # orders and evidence are the samples' own

    def deciding(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("order", "evidence", "numbers", "law_dtype")}

    def oracle_of(self, samples: Tensor) -> TokenOracle:
        """The oracle for one sequence of each of these samples (m,)."""
        return self.oracle.conditioned(**of_samples(self.condition, samples)) if self.condition else self.oracle

    def check(self, num_samples: int) -> None:
        check_rows(self.condition, num_samples)
        for name in ("order", "evidence", "numbers"):
            given = getattr(self, name)
            if isinstance(given, Tensor) and (given.dim() == 2 or name == "numbers") and len(given) < num_samples:
                raise InputError(
                    f"{name} has {len(given)} rows, but {num_samples} samples are asked for: give one for each sample, "
                    "the same again to draw several of it"
                )

    def empty(self, num_samples: int) -> Tensor:
        return torch.zeros(num_samples, self.oracle.length, dtype=torch.int64)

    def _checked_order(self, order: Order) -> Tensor | str | None:
        if order is None:
            return None
        if isinstance(order, str):
            if order != "spread":
                raise InputError(f'order must be "spread", a permutation or one for each sample, not {order!r}')
            return order
        given = self._integers("order", order)
        if not bool((given.sort(-1).values == torch.arange(self.oracle.length)).all()):
            raise InputError(f"order must be a permutation of 0 ... {self.oracle.length - 1} (in every row)")
        return given

    def _checked_evidence(self, evidence: Any) -> Tensor:
        given = self._integers("evidence", evidence)
        q = self.oracle.vocab_size
        bad = ((given < 0) & (given != HIDDEN)) | (given >= q)
        if bool(bad.any()):
            at = tuple(bad.nonzero()[0].tolist())
            raise InputError(
                f"evidence{list(at)} is {int(given[at])}: known tokens must be 0 ... {q - 1}, hidden positions {HIDDEN}"
            )
        possible = getattr(self.oracle, "possible", None)
        if possible is not None:
            rows = possible(given.view(-1, self.oracle.length).to(self.oracle.device)).cpu()
            if not bool(rows.all()):
                raise InputError(f"evidence row {int((~rows).nonzero()[0, 0])} has probability zero under the target")
        return given

    def _integers(self, name: str, value: Any) -> Tensor:
        try:
            given = torch.as_tensor(value).cpu()
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} must be integers, (n,) or (num_samples, n): {error}") from None
        n = self.oracle.length
        whole_numbers = not (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool)
        if not whole_numbers or given.dim() not in (1, 2) or given.shape[-1] != n:
            raise InputError(
                f"{name} must be integers of shape ({n},) or (num_samples, {n}), not {given.dtype} {tuple(given.shape)}"
            )
        return given.to(torch.int64)
