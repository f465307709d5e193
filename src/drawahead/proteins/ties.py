"""Residues that share their amino acid: groups, and the steps of a design."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import torch

from drawahead.errors import InputError
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.structures.backbone import Backbone
from drawahead.validate import number, numbers, short

Tied = Iterable[Iterable[int | str] | Mapping[int | str, float]]
Group: TypeAlias = dict[int, float]
"""Residues that share their amino acid, by position, and how much each one's logits count."""


def groups(structure: Backbone, tied: Tied | None) -> list[Group]:
    """Tied groups from lists of residues, or from residues with their weights."""
    found: list[Group] = []
    seen: set[int] = set()
    for i, group in enumerate(tied or []):
        if isinstance(tied, str) or isinstance(group, str):
            raise InputError(f"tied must be a list, such as [['A1', 'B1'], ['A2', 'B2']], not {short(tied)}")
        found.append({})
        for key, weight in group.items() if isinstance(group, Mapping) else [(one, 1.0) for one in group]:
            for at in structure.select(key):
                if at in seen:
                    label = structure.labels[at]
                    raise InputError(f"tied[{i}]: residue {label} is tied already; each is in one group at most")
                seen.add(at)
                found[-1][at] = number(f"weight of {key} in tied[{i}]", weight)
    return [group for group in found if group]


def symmetric(
    structure: Backbone, chains: Sequence[str], weights: Sequence[float] | None = None
) -> list[dict[int | str, float]]:
    """Groups that tie chains of one length residue by residue, as `tied=` takes them."""
    amounts = [1.0] * len(chains) if weights is None else list(numbers("weights", weights))
    if len(amounts) != len(chains):
        raise InputError(f"weights must be {len(chains)}, one a chain, not {len(amounts)}")
    for chain in chains:
        structure.check_chain(chain)
    places = {chain: structure.places(chain) for chain in chains}
    first = places[chains[0]] if chains else {}
    for chain, other in places.items():
        if other.keys() != first.keys():
            odd = sorted(other.keys() ^ first.keys())
            raise InputError(
                f"chains {chains[0]} and {chain} cannot be tied: they have {len(first)} and {len(other)} residues, and "
                f"differ at place {odd[0] + 1}; tie the residues that both have by hand"
            )
    return [{places[chain][at]: amount for chain, amount in zip(chains, amounts, strict=True)} for at in first]


def steps(length: int, tied: Sequence[Group]) -> Steps:
    """The steps of a design: one for each group, in the place of its first residue, and one for each other residue."""
    if not tied:
        return Steps.single(length)
    by_residue = {at: group for group in tied for at in group}
    most = max(2, *map(len, tied))  # a weight of a single residue counts, too
    members, weights, count, done = [], [], [], set[int]()
    for at in range(length):
        if at not in done:
            group = by_residue.get(at, {at: 1.0})
            done |= group.keys()
            count.append(len(group))
            spare = most - len(group)
            members.append([*group, *[next(iter(group))] * spare])
            weights.append([*(weight / len(group) for weight in group.values()), *[0.0] * spare])
    return Steps(torch.tensor(members), torch.tensor(weights, dtype=torch.float64), torch.tensor(count))
