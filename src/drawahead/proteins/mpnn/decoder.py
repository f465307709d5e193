"""The decoder of ProteinMPNN, arranged so that one pass decodes every residue of many sequences at once.

In each layer residue i receives from neighbour j a message W3 g(W2 g(W1 [h_i, e_ij, s_j, h_j])), g = GELU, where the
token s_j and the decoded state h_j are seen only if j comes before i in the order; otherwise s_j = 0 and h_j is the
encoder's. W1 falls into four blocks, so most of it depends on the structure alone and is computed once: a pass only
adds, for each neighbour that is seen, the difference its token and decoded state make. W3 is applied after the messages
are summed.

A step draws one residue, or a tied group: its logits are a weighted sum of those of its members. Within a group a
member sees the decoded states of those before it, but no token: theirs is the one about to be drawn.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn.functional import embedding, gelu, linear, pad

from drawahead.errors import InputError
from drawahead.proteins.mpnn.encoded import Steps, Structures
from drawahead.proteins.mpnn.encoder import SCALE, Graph, Weights

_SLICE = 1 << 22  # message entries that are computed at a time for single cells


@final
class Decoder:
    """The decoder on one or more structures."""

    def __init__(self, weights: Weights, structures: Structures) -> None:
        k = structures.neighbours.shape[2]
        self.layers = [_Layer(weights, name, k, first=i == 0) for i, name in enumerate(weights.layers("decoder"))]
        self.head = weights.tensors["W_out.weight"], weights.tensors["W_out.bias"]
        self.weights, self.structures = weights, structures

    @staticmethod
    def on(weights: Weights, graph: Graph, steps: Steps) -> Decoder:
        """The decoder on one structure. Everything that no token changes is computed here, once."""
        still, unseen = zip(*(_unseen(weights, name, graph) for name in weights.layers("decoder")), strict=True)
        still[0].add_(linear(graph.nodes, _blocks(weights, weights.layers("decoder")[0])[0])[:, None])
        tables = graph.nodes[None], graph.neighbours[None], torch.stack(still)[None], torch.stack(unseen)[None]
        return Decoder(weights, Structures.single(*tables, steps))

    def with_steps(self, steps: Steps) -> Decoder:
        """The same structure, drawn in other steps."""
        own = self.structures
        return Decoder(self.weights, Structures.single(own.nodes, own.neighbours, own.still, own.unseen, steps))

    def decode(
        self, tokens: Tensor, rank: Tensor, seen: Tensor, which: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """One pass over complete sequences (r, g): step i sees those of rank below seen[i].

        `rank` (r, g) orders the steps; `which` (r,) says on which structure each sequence is, if there are several.
        Where seen = rank for every step that another one sees, the logits (r, g, letters) are those of sequential
        decoding. Beside them come the tables in which single cells look up what they see. Shapes depend on r alone and
        nothing waits for the device: a pass can be captured as a graph.
        """
        own = self.structures
        if which is None and len(own.nodes) > 1:
            raise InputError("there are several structures: draw from Backbones.chain, which says which is whose")

        def pick(table: Tensor) -> Tensor:
            return table.expand(len(tokens), *table.shape[1:]) if which is None else table[which]

        step, near = pick(own.step), pick(own.neighbours)  # (r, n), (r, n, k)
        r, n = step.shape
        tokens, rank, seen = (table.gather(1, step) for table in (tokens, rank, seen))  # of residues
        flat = torch.arange(r, device=tokens.device)[:, None, None] * n + near
        before = rank.gather(1, near.flatten(1)).view_as(near) < seen[..., None]
        index = torch.where(before, flat, r * n)
        if own.tied:
            index = torch.where(pick(own.mate) >= 0, flat + r * n + 1, index)
        state = pick(own.nodes)
        tables = []
        for i, layer in enumerate(self.layers):
            still = own.still[:, i] if which is None else own.still[which, i]
            tables.append(layer.table(tokens, state, pick(own.unseen[:, i]), tied=own.tied))
            state = layer.update(state, still, embedding(index, tables[-1]))
        logits = linear(state, *self.head)
        if not own.tied:
            return logits, tables  # steps are residues
        members, weight = pick(own.members), pick(own.weight)
        of_members = logits.gather(1, members.flatten(1)[..., None].expand(-1, -1, logits.shape[-1]))
        return (of_members.unflatten(1, members.shape[1:]) * weight[..., None]).sum(2), tables

    def memory(self, tokens: Tensor, rank: Tensor, which: Tensor | None = None) -> Tensor:
        """What residues add to messages once they are seen (r, layers, n + 1, d), of which that of those of negative
        rank is true; the last place is for what nobody sees. Not for tied steps."""
        _, tables = self.decode(tokens, rank, rank, which)
        return torch.stack([pad(table[:-1].unflatten(0, tokens.shape), (0, 0, 0, 1)) for table in tables], dim=1)

    def extend(
        self,
        memory: Tensor,
        rank: Tensor,
        content: tuple[Tensor, Tensor, Tensor],
        cells: tuple[Tensor, Tensor],
        which: Tensor | None = None,
    ) -> Tensor:
        """The logits (r, c, letters) of cells, prefixes and positions (r, c), that see what is in the memory of paths.

        Content, tokens, places and steps (r, s), is entered first: of that, each sees those of a step before its own.
        """
        (token, place, step), (prefix, position), own = content, cells, self.structures
        rows, s = torch.arange(len(rank), device=rank.device)[:, None], token.shape[1]
        on = torch.zeros_like(rows) if which is None else which[:, None]
        at = torch.cat([place.clamp(max=rank.shape[1] - 1), position], dim=1)  # (r, s + c)
        near = own.neighbours[on, at]  # (r, s + c, k)
        seen = rank[rows[..., None], near] < torch.cat([step, prefix], dim=1)[..., None]
        index = torch.where(seen, near, rank.shape[1])
        state = own.nodes[on, at]
        for i, layer in enumerate(self.layers):
            memory[rows, i, place] = layer.added(token, layer.moved(state[:, :s], own.unseen[on, i, at[:, :s]]))
            memory[:, i, -1] = 0.0  # padding was entered there
            state = layer.update(state, own.still[on, i, at], memory[rows[..., None], i, index])
        return linear(state[:, s:], *self.head)

    def ask(
        self,
        tables: list[Tensor],
        rank: Tensor,
        row: Tensor,
        prefix: Tensor,
        position: Tensor,
        which: Tensor | None = None,
    ) -> Tensor:
        """The logits (p, letters) of single cells of a pass: step position[c] of sequence row[c] sees what has a rank
        below prefix[c]."""
        own = self.structures
        n, m = own.nodes.shape[1], own.members.shape[2]
        size = max(1, _SLICE // (m * own.still[0, 0, 0].numel()))
        parts = []
        for at, before, where in zip(row.split(size), prefix.split(size), position.split(size), strict=True):
            on = torch.zeros_like(at) if which is None else which[at]
            members, one = own.members[on, where], on[:, None]  # (cells, m), (cells, 1)
            near, mate = own.neighbours[one, members], own.mate[one, members]  # (cells, m, k)
            seen = rank[at[:, None, None], own.step[on[:, None, None], near]] < before[:, None, None]
            index = torch.where(seen, at[:, None, None] * n + near, rank.shape[0] * n)
            state = own.nodes[one, members]  # (cells, m, d)
            for i, (layer, table) in enumerate(zip(self.layers, tables, strict=True)):
                added = embedding(index, table)
                if own.tied and i:
                    moved = linear(state, layer.near) - own.unseen[one, i, members]
                    cell = torch.arange(len(at), device=at.device)[:, None, None]
                    added += moved[cell, mate.clamp(min=0)] * (mate >= 0)[..., None]
                state = layer.update(state, own.still[one, i, members], added)
            parts.append((linear(state, *self.head) * own.weight[on, where][..., None]).sum(1))
        return torch.cat(parts)


@final
class _Layer:
    """One layer of the decoder."""

    def __init__(self, weights: Weights, name: str, neighbours: int, *, first: bool) -> None:
        self.own, _, token, self.near = _blocks(weights, name)
        get = weights.tensors
        self.token = linear(get["W_s.weight"], token)  # (letters, d)
        self.second = get[f"{name}.W2.weight"], get[f"{name}.W2.bias"]
        self.third = get[f"{name}.W3.weight"] / SCALE, get[f"{name}.W3.bias"] * (neighbours / SCALE)
        self.weights, self.name, self.first = weights, name, first

    def table(self, tokens: Tensor, state: Tensor, unseen: Tensor, *, tied: bool) -> Tensor:
        """What each residue adds to a message once it is seen (r * n, d), then a row of zeros for those that are not;
        and, with ties, what it adds to those of its own step, who see its state alone (r * n, d)."""
        moved = self.moved(state, unseen)
        table = pad(self.added(tokens, moved).flatten(0, 1), (0, 0, 0, 1))
        return torch.cat([table, moved.flatten(0, 1)]) if tied else table

    def moved(self, state: Tensor, unseen: Tensor) -> Tensor:
        """What the decoded state of each residue adds to a message."""
        return torch.zeros_like(unseen) if self.first else linear(state, self.near) - unseen

    def added(self, tokens: Tensor, moved: Tensor) -> Tensor:
        """What each residue adds to a message once it is seen."""
        token = embedding(tokens, self.token)
        return token if self.first else token + moved

    def update(self, state: Tensor, still: Tensor, added: Tensor) -> Tensor:
        """The states (..., d) after this layer, from what the messages (..., k, d) hold before their first GELU."""
        added += still
        if not self.first:  # in the first, every residue starts from the encoder's state: it is in `still`
            added += linear(state, self.own)[..., None, :]
        message = gelu(linear(gelu(added), *self.second)).sum(-2)
        state = self.weights.norm(f"{self.name}.norm1", state + linear(message, *self.third))
        return self.weights.norm(f"{self.name}.norm2", state + self.weights.dense(self.name, state))


def _blocks(weights: Weights, name: str) -> tuple[Tensor, ...]:
    """The parts of W1 that see a residue's own state, the edge, the neighbour's token and its state."""
    parts: tuple[Tensor, ...] = weights.tensors[f"{name}.W1.weight"].split(weights.width, dim=1)
    return parts


def _unseen(weights: Weights, name: str, graph: Graph) -> tuple[Tensor, Tensor]:
    """Of a layer: what messages hold (n, k, d), and what of it is the neighbour's state (n, d), if none is seen."""
    _, edge, _, near = _blocks(weights, name)
    unseen = linear(graph.nodes, near)
    return linear(graph.edges, edge, weights.tensors[f"{name}.W1.bias"]) + unseen[graph.neighbours], unseen
