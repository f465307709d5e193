"""Residues that share their amino acid: groups as they are given, and the steps of a design."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch

from drawahead.errors import InputError
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.structures.backbone import Backbone
from drawahead.validate import number, numbers, short

Tied = Iterable[Iterable[int | str] | Mapping[int | str, float]]


@final
@dataclass(frozen=True)
class Group:
    """Residues that share their amino acid, and how much each one's logits count."""

    members: tuple[int, ...]
    weights: tuple[float, ...]


def groups(structure: Backbone, tied: Tied | None) -> list[Group]:
    """Tied groups as they were given: residues, or residues with their weights."""
    found: list[Group] = []
    seen: set[int] = set()
    for i, group in enumerate([] if tied is None else _entries("tied", tied)):
        given = group.items() if isinstance(group, Mapping) else [(one, 1.0) for one in _entries(f"tied[{i}]", group)]
        pairs = [
            (at, number(f"weight of {key} in tied[{i}]", weight))
            for key, weight in given
            for at in structure.select(key)
        ]
        for at, _ in pairs:
            if at in seen:
                raise InputError(
                    f"tied[{i}]: residue {structure.labels[at]} is tied already; each is in one group at most"
                )
            seen.add(at)
        if pairs:
            found.append(Group(tuple(at for at, _ in pairs), tuple(weight for _, weight in pairs)))
    return found


def _entries(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name} must be a list, such as [['A1', 'B1'], ['A2', 'B2']], not {short(given)}")
    return list(given)


def symmetric(
    structure: Backbone, chains: Sequence[str], weights: Sequence[float] | None = None
) -> list[dict[int | str, float]]:
    """Groups that tie chains of one length residue by residue, as `tied=` takes them."""
    amounts = [1.0] * len(chains) if weights is None else list(numbers("weights", weights))
    if len(amounts) != len(chains):
        raise InputError(f"weights must be {len(chains)}, one a chain, not {len(amounts)}")
    for chain in chains:
        if chain not in structure.chains:
            raise InputError(f"the structure has no chain {chain}: it has {', '.join(structure.chains)}")
    places = {chain: _places(structure, chain) for chain in chains}
    first = places[chains[0]] if chains else {}
    for chain, other in places.items():
        if other.keys() != first.keys():
            odd = sorted(other.keys() ^ first.keys())
            raise InputError(
                f"chains {chains[0]} and {chain} cannot be tied: they have {len(first)} and {len(other)} residues, and "
                f"differ at place {odd[0] + 1}; tie the residues that both have by hand"
            )
    return [{places[chain][at]: amount for chain, amount in zip(chains, amounts, strict=True)} for at in first]


def _places(structure: Backbone, chain: str) -> dict[int, int]:
    """The positions of a chain's residues by their place along it."""
    return {int(structure.index[i]): i for i, of in enumerate(structure.chain) if of == chain}


def steps(length: int, tied: Sequence[Group]) -> Steps:
    """The steps of a design: one for each group, in the place of its first residue, and one for each other residue."""
    if not tied:
        return Steps.single(length)
    by_residue = {at: group for group in tied for at in group.members}
    most = max(2, *(len(group.members) for group in tied))  # a weight of a single residue counts, too
    members, weights, count, done = [], [], [], set()
    for at in range(length):
        group = by_residue.get(at, Group((at,), (1.0,)))
        if group.members[0] not in done:
            done.add(group.members[0])
            count.append(len(group.members))
            short_by = most - len(group.members)
            members.append([*group.members, *[group.members[0]] * short_by])
            weights.append([weight / len(group.members) for weight in group.weights] + [0.0] * short_by)
    return Steps(torch.tensor(members), torch.tensor(weights, dtype=torch.float64), torch.tensor(count))
