"""Which rows of a batch belong to which image: of states, and of what networks are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.diffusers.loops.body import TapeRun
from drawahead.diffusers.loops.calls import Arguments, Asking, ByStep
from drawahead.diffusers.loops.comparing import close, rounding
from drawahead.diffusers.loops.tape import Ref
from drawahead.errors import InputError


@final
@dataclass(frozen=True, eq=False)
class Packing:
    """The batch in which a state is run, as the image that it is (m,). All in one batch are at one step."""

    batch: Tensor
    image: Tensor
    step: Tensor  # (batches,)
    filler: Tensor  # a state of each batch, which takes the places of images that are not there (batches,)

    @staticmethod
    def of(k: Tensor, image: Tensor, images: int) -> Packing:
        """Of states at steps k: those of different images share batches. While a graph is compiled or captured, when
        their number must not depend on k, each has one of its own."""
        alone = torch.arange(len(k), device=k.device)
        fixed = torch.compiler.is_compiling() or (k.is_cuda and torch.cuda.is_current_stream_capturing())
        if images == 1 or fixed:
            return Packing(alone, image, k, alone)
        order = (k * images + image).argsort(stable=True)
        _, run, counts = torch.unique_consecutive((k * images + image)[order], return_inverse=True, return_counts=True)
        turn = torch.empty_like(k)  # among those of the same step and image
        turn[order] = alone - (counts.cumsum(0) - counts)[run]
        own, batch = torch.unique(k * len(k) + turn, return_inverse=True)
        filler = torch.full_like(own, len(k)).scatter_reduce_(0, batch, alone, "amin")
        return Packing(batch, image, own // len(k), filler)

    def rows(self, values: Tensor, images: int) -> Tensor:
        """Values (m, copies, frames, ...) of states as rows of batches (batches, rows, ...)."""
        each = values[self.filler][:, :, None]
        wide = each.expand(*each.shape[:2], images, *each.shape[3:]).clone()
        wide[self.batch, :, self.image] = values
        return wide.flatten(1, 3)

    def own(self, rows: Tensor, copies: int, images: int) -> Tensor:
        """The other way round."""
        wide: Tensor = rows.unflatten(1, (copies, images, -1))
        return wide[self.batch, :, self.image]


@final
@dataclass(frozen=True, eq=False)
class RowLayout:
    """Rows (copies, images, frames, ...) of a state, in that order."""

    copies: int
    images: int
    frames: int

    def spread(self, state: Tensor, packing: Packing) -> Tensor:
        """States (m, ...) of one image each as all rows (batches, rows, ...)."""
        state = state if self.frames > 1 else state[:, None]
        return packing.rows(state[:, None].expand(-1, self.copies, *state.shape[1:]), self.images)

    def joined(self, states: Tensor) -> Tensor:
        """A state for each image (images, ...) as rows."""
        wide = states if self.frames > 1 else states[:, None]
        return torch.cat([wide.flatten(0, 1)] * self.copies)

    def of_images(self, rows: Tensor, packing: Packing) -> Tensor:
        """Of rows (batches, rows, ...), those of one image each (m, ...)."""
        own = packing.own(rows, self.copies, self.images)[:, 0]
        return own if self.frames > 1 else own.select(1, 0)

    def states(self, rows: Tensor) -> Tensor:
        """Rows as a state for each image."""
        own: Tensor = rows.unflatten(0, (self.copies, self.images, self.frames))[0]
        return own if self.frames > 1 else own.select(1, 0)


@final
@dataclass(frozen=True, eq=False)
class Batched:
    """A call of a network for states of any steps and images. Its rows are (passes, states, frames), in that order;
    `rows` are the numbers (variant, leaf) of those constants that have such rows, one block for each image."""

    asking: Asking
    number: int
    passes: int
    frames: int
    images: int
    rows: frozenset[tuple[int, int]]

    def tables(self) -> dict[str, Tensor]:
        """The rows of constants (images, passes, frames, ...)."""
        return {
            self._name(variant, i): self._blocks(self.asking.variants[variant].leaves[i]).transpose(0, 1)
            for variant, i in sorted(self.rows)
        }

    def without_rows(self) -> Batched:
        variants = [
            replace(own, leaves=[None if (number, i) in self.rows else leaf for i, leaf in enumerate(own.leaves)])
            for number, own in enumerate(self.asking.variants)
        ]
        return replace(self, asking=replace(self.asking, variants=variants))

    def __call__(
        self, values: dict[int, Tensor], k: Tensor, packing: Packing, rows: dict[str, Tensor], ask: Any
    ) -> Any:
        """What the network answers, as flat results with the rows of all images (batches, rows, ...)."""
        results: list[Any] = []
        which = self.asking.which[packing.step]
        for number, variant in enumerate(self.asking.variants):
            if self._idle(which == number, last=not results and number == len(self.asking.variants) - 1):
                continue
            leaves = [self._leaf(number, i, leaf, values, k, packing, rows) for i, leaf in enumerate(variant.leaves)]
            answers = [self._spread(value, packing) for value in ask(self, variant, leaves)]
            pairs = zip(answers, results, strict=True)
            results = [_where(which == number, *pair) for pair in pairs] if results else answers
        return results

    def _idle(self, chosen: Tensor, last: bool) -> bool:
        """Whether nobody needs these arguments; while a graph is captured that is not to be seen."""
        if len(self.asking.variants) == 1 or last or (chosen.is_cuda and torch.cuda.is_current_stream_capturing()):
            return False
        return not bool(chosen.any())

    def _leaf(
        self, variant: int, i: int, leaf: Any, values: dict[int, Tensor], k: Tensor, packing: Packing,
        rows: dict[str, Tensor],
    ) -> Any:  # fmt: skip
        if (variant, i) in self.rows:
            return rows[self._name(variant, i)].transpose(0, 1).flatten(0, 2)
        if isinstance(leaf, Ref):
            return self._own(values[leaf.number], packing)
        if not isinstance(leaf, ByStep):
            return leaf
        if leaf.table.dim() > 1 and leaf.table.shape[1] % (self.passes * self.images) == 0:
            return self._own(leaf(packing.step), packing)
        if leaf.table[0].numel() != 1:
            name = self.asking.variants[variant].names[i]
            raise InputError(f"{name} changes from step to step, and has no row for each image")
        return leaf(k).view(1, -1, 1).expand(self.passes, -1, self.frames).flatten()

    def _own(self, value: Tensor, packing: Packing) -> Tensor:
        """Of (batches, rows, ...) the rows of one image each, as (passes, m, frames) rows."""
        if value.shape[1] % (self.passes * self.images):
            raise InputError("the network is given rows that belong to no image")
        return packing.own(value, self.passes, self.images).transpose(0, 1).flatten(0, 2)

    def _spread(self, value: Any, packing: Packing) -> Any:
        if not isinstance(value, Tensor):
            return value
        number = len(packing.batch)
        if not value.dim() or len(value) % (self.passes * number):
            raise InputError("the network answers something that has no row for each image")
        return packing.rows(value.unflatten(0, (self.passes, number, -1)).transpose(0, 1), self.images)

    def _blocks(self, leaf: Tensor) -> Tensor:
        blocks: Tensor = leaf.unflatten(0, (self.passes, self.images, -1))
        return blocks

    def _name(self, variant: int, i: int) -> str:
        return f"call{self.number}_{variant}_{i}"


def may_have_rows(leaf: Any, each: int) -> bool:
    """Whether there may be a row, or several, for each pass of each image."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) > 0 and len(leaf) % each == 0


def likely_rows(arguments: Arguments, each: int, frames: int, declared: Sequence[str]) -> set[int]:
    """Constants that have as many rows as the network has, or are said to have them."""
    return {
        i
        for i, leaf in enumerate(arguments.leaves)
        if may_have_rows(leaf, each) and (len(leaf) in (each, each * frames) or arguments.names[i] in declared)
    }


def _where(chosen: Tensor, one: Any, other: Any) -> Any:
    if not isinstance(one, Tensor):
        return one
    return torch.where(chosen.view(-1, *(1,) * (one.dim() - 1)), one, other)


def layouts(
    run: TapeRun, before: TapeRun | None, state: Tensor, answers: Sequence[Sequence[Any]]
) -> Iterator[tuple[RowLayout, list[tuple[int, int]]]]:
    """How the rows of a state may belong to images, and how many passes and frames each call then has: seen by changing
    the state of one image and looking which rows of what networks are given change."""
    rows = len(state)
    for images in [number for number in range(rows, 0, -1) if rows % number == 0]:
        for copies, frames in dict.fromkeys([(rows // images, 1), (1, rows // images)]):
            layout = RowLayout(copies, images, frames)
            passes = _passes(run, before, state, answers, layout)
            if passes is not None:
                yield layout, passes


def _passes(
    run: TapeRun, before: TapeRun | None, state: Tensor, answers: Sequence[Sequence[Any]], layout: RowLayout
) -> list[tuple[int, int]] | None:
    changes = torch.randn(state.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(state)
    wide = changes.unflatten(0, (layout.copies, layout.images, layout.frames))
    first, last, copied = (torch.zeros_like(wide) for _ in range(3))
    first[0, 0], last[0, -1], copied[1:] = wide[0, 0], wide[0, -1], wide[1:]
    trials = torch.stack([state, *(state + change.flatten(0, 2) for change in (first, last, copied))])
    given: list[list[Tensor]] = []

    def ask(call: int, values: dict[int, Tensor]) -> list[Any]:
        leaves = run.calls[call].variants[0].leaves
        given.append([values[leaf.number] for leaf in leaves if isinstance(leaf, Ref)])
        return [
            value.expand(len(trials), *value.shape) if isinstance(value, Tensor) else value for value in answers[call]
        ]

    k = torch.zeros(len(trials), dtype=torch.int64, device=state.device)
    run(trials if before is None else before(trials, k, ask)[0], k, ask)
    found = [_of_call(leaves, layout) for leaves in given]
    return None if None in found else [one for one in found if one is not None]


def _of_call(leaves: list[Tensor], layout: RowLayout) -> tuple[int, int] | None:
    """How many passes and frames a call has; None if its rows do not belong to images so."""
    for leaf in leaves:
        if not leaf.is_floating_point() or leaf.dim() < 2:
            continue
        change = (leaf[1:] - leaf[:1]).flatten(2)  # (3, rows, ...)
        moved = change.ne(0).any(2)
        if not bool(moved[:2].any()):
            continue
        if bool(moved[2].any()) or moved.shape[1] % layout.images:
            return None
        each = moved.shape[1] // layout.images
        fitting = [
            passes
            for passes in range(each, 0, -1)
            if each % passes == 0 and _belong(change, moved, passes, layout.images)
        ]
        return (fitting[0], each // fitting[0]) if fitting else None
    return (leaves[0].shape[1] // layout.images, 1) if leaves and leaves[0].dim() > 1 else None


def _belong(change: Tensor, moved: Tensor, passes: int, images: int) -> bool:
    rows = moved[:2].unflatten(1, (passes, images, -1))  # (2, passes, images, frames)
    own = torch.zeros(2, images, dtype=torch.bool, device=rows.device)
    own[0, 0] = own[1, -1] = True
    if not bool((rows.any(3) == own[:, None]).all()):
        return False
    parts = change[0].unflatten(0, (passes, images, -1))[:, 0]  # the same state in every pass
    return all(close(part, parts[0], rounding(part)) for part in parts)
