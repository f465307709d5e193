"""The recursion of `Recursive`: all samples, and all candidates of their segments, go on side by side.

A round asks what every one of them waits for; what the answers settle is then settled for all of them at once, and
costs no round. Symbols: S = [a, b) a segment, mu_S its target law, nu_S the draft (all of S from the answer at a).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.laws import Law
from drawahead.randomness import Purpose, Stream
from drawahead.rounds.threads import Fork, Query, Thread
from drawahead.samplers.segments import (
    DROPPED,
    ENDED,
    FORKED,
    LAWS,
    NONE,
    VERIFY,
    Cells,
    Heap,
    Ints,
    Nodes,
    cells,
    together,
)

if TYPE_CHECKING:
    from drawahead.samplers.recursive import Recursive


@final
@dataclass(frozen=True, eq=False)
class _Asked:
    """A question about several nodes, whose segments are alike."""

    nodes: Ints
    query: Query
    draft: Law | None = None  # what the guess was drawn from; None where only laws are asked for
    guess: Tensor | None = None

    def answered(self, size: int, beyond: int) -> Thread:
        """-> the laws of the steps asked about, and those of the steps after them, as far as they are wanted."""
        answer: Answer = yield self.query
        if self.draft is None:
            after = yield from answer.after(self._depth(0), size - 1)
            return answer.target.join(after), None
        target = self.draft.first(1).join(answer.target.first(size - 1))
        if not beyond:
            return target, None
        after = yield from answer.after(self._depth(size - 1), beyond - 1)
        return target, _from(answer.target, size - 1).join(after)

    def _depth(self, depth: int) -> Tensor:
        return torch.full((len(self.nodes),), depth)


def _from(law: Law, column: int) -> Law:
    """The laws from this column on."""
    rows, width = law.shape
    return law[torch.arange(rows)[:, None], torch.arange(column, width)[None]]


@final
class Recursion:
    """All that is under way. A root draws a sample segment by segment; below it are candidates for its segment."""

    def __init__(self, sampler: Recursive, paths: Paths) -> None:
        self.sampler, self.paths = sampler, paths
        self.nodes = Nodes()
        self.contexts = Heap()
        self.drafts, self.drawn = Cells(), Cells()
        self.wish = sampler.first_segment(paths.length.numpy())  # (rows,) how large their next segment should be

    def rounds(self) -> Thread:
        self._root(np.arange(len(self.paths)), np.full(len(self.paths), NONE))
        while len(self.paths):
            asked = [*self._verifications(), *self._drafts()]
            nodes = self.nodes
            threads = [q.answered(int(nodes.size[q.nodes[0]]), int(nodes.beyond[q.nodes[0]])) for q in asked]
            answers = yield Fork(threads)
            done = [self._absorb(question, *answer) for question, answer in zip(asked, answers, strict=True)]
            self._settle(np.concatenate(done))
            self._sweep()

    # What is asked

    def _verifications(self) -> list[_Asked]:
        """Guess all of every segment that is new, and ask about the conditionings a+1 ... b-1 along the guess (a is
        known already), and about b for what comes after."""
        nodes, asked = self.nodes, []
        ready = (nodes.state == VERIFY).nonzero()[0]
        for group in together(nodes.size[ready], nodes.beyond[ready]):
            ids = ready[group]
            size, beyond = int(nodes.size[ids[0]]), int(nodes.beyond[ids[0]])
            paths, draft = self._paths(ids), self.drafts.law(cells(nodes.draft[ids], size))
            guess = draft.draw(draft.noise(paths.stream, Purpose.VALUE, paths.steps(size)))
            count = torch.full((len(ids),), size - 1 + (beyond > 0))
            reach = torch.zeros(len(ids), int(count[0]), dtype=torch.int64)
            reach[:, -1] = max(0, beyond - 1)
            asked.append(_Asked(ids, paths.ask(guess, count, reach, first=1), draft, guess))
        return asked

    def _drafts(self) -> list[_Asked]:
        """Ask for the laws of all of a segment, where they did not come with an answer before."""
        nodes, asked = self.nodes, []
        ready = (nodes.state == LAWS).nonzero()[0]
        for group in together(nodes.size[ready]):
            ids = ready[group]
            one = torch.ones(len(ids), dtype=torch.int64)
            reach = (one * (int(nodes.size[ids[0]]) - 1))[:, None]
            asked.append(_Asked(ids, self._paths(ids).ask(None, one, reach)))
        return asked

    # What the answers settle

    def _absorb(self, asked: _Asked, target: Law, onward: Law | None) -> Ints:
        """Judge the guesses. -> nodes whose segment is drawn."""
        ids, nodes = asked.nodes, self.nodes
        if asked.draft is None or asked.guess is None:
            return self._begin(ids, self.drafts.add(target))
        size = target.shape[1]
        uniform = self._uniform(Purpose.ACCEPT, ids, nodes.start[ids])
        accepted = self.sampler.accepts_draft(uniform, target.log_ratio(asked.draft, asked.guess).sum(1))
        kept = accepted.cpu().nonzero()[:, 0]
        tally = self.paths.tally
        tally.drafted += size * len(ids)
        tally.accepted += size * len(kept)
        taken, refused = ids[kept.numpy()], ids[~accepted.cpu().numpy()]
        self._found(taken, kept, target, asked.guess, onward)
        nodes.state[refused] = FORKED
        return np.concatenate([taken, self._fork(refused[nodes.ended[refused] == NONE])])

    def _found(self, ids: Ints, rows: Tensor, target: Law, values: Tensor, onward: Law | None) -> None:
        """Keep these rows of what was drawn as the results of nodes."""
        index = rows.to(values.device)[:, None]
        width = torch.arange(target.shape[1], device=values.device)[None]
        self.nodes.result[ids] = self.drawn.add(target[index, width], values[index[:, 0]])
        if onward is not None:
            ahead = torch.arange(onward.shape[1], device=values.device)[None]
            self.nodes.onward[ids] = self.drafts.add(onward[index, ahead])

    def _settle(self, done: Ints) -> None:
        """Follow up on nodes whose segment is drawn, until all wait for answers. It costs no round."""
        nodes = self.nodes
        while len(done):
            begun = self._commit(done[nodes.parent[done] == NONE])
            done = done[nodes.state[done] != DROPPED]
            right = nodes.right[done] == 1
            begun = np.concatenate([begun, self._turn_right(done[~right])])
            self._judge(done[right])
            winners, exhausted = self._decide(np.unique(nodes.parent[done[right]]))
            begun = begun[nodes.state[begun] != DROPPED]
            done = np.concatenate([begun, winners, self._fork(exhausted)])

    def _begin(self, ids: Ints, draft: Ints) -> Ints:
        """Begin the segments of nodes, with laws to draft from. -> those of which something is drawn at once: where
        there is a single step, nu = mu."""
        nodes = self.nodes
        nodes.draft[ids], nodes.state[ids] = draft, VERIFY
        nodes.result[ids] = nodes.onward[ids] = nodes.ended[ids] = NONE
        single: Ints = ids[nodes.size[ids] == 1]
        if len(single):
            law, stream = self.drafts.law(cells(nodes.draft[single], 1)), self._stream(single)
            steps = torch.from_numpy(nodes.start[single, None]).to(self.paths.device)
            values = law.draw(law.noise(stream, Purpose.VALUE, steps))
            nodes.result[single] = self.drawn.add(law, values)
        if not self.sampler.eager:
            return single
        return np.concatenate([single, self._fork(ids[(nodes.parent[ids] == NONE) & (nodes.size[ids] > 1)])])

    def _fork(self, ids: Ints) -> Ints:
        """Begin the next batch of candidates for the segments of these nodes. -> candidates whose left half is drawn
        at once."""
        nodes, lengths = self.nodes, self.paths.length.numpy()
        if not len(ids):
            return ids
        first = np.where(nodes.ended[ids] == NONE, 1, nodes.ended[ids])
        known = zip(first.tolist(), lengths[nodes.row[ids]].tolist(), strict=True)
        last = np.array([self.sampler.batch_after(*each) for each in known], dtype=np.int64)
        nodes.ended[ids] = last
        count = last - first
        self.paths.tally.candidates += int(count.sum())
        parent = np.repeat(ids, count)
        index = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        start = torch.from_numpy(nodes.start[parent])
        keys = self._stream(parent, "cpu").child(torch.from_numpy(index), start).keys.numpy()
        half = (nodes.size[parent] + 1) // 2
        children = nodes.add(
            row=nodes.row[parent],
            parent=parent,
            index=index,
            key=keys[:, 0],
            key_low=keys[:, 1],
            context=nodes.context[parent],
            right=0,
            start=nodes.start[parent],
            size=half,
            beyond=nodes.size[parent] - half,
        )
        return self._begin(children, nodes.draft[parent])

    def _turn_right(self, ids: Ints) -> Ints:
        """Candidates whose left half is drawn go on with the right one. -> those for which that is drawn at once."""
        nodes = self.nodes
        for group in together(nodes.size[ids]):
            mine = ids[group]
            half = int(nodes.size[mine[0]])
            paths = self._paths(mine)
            paths.advance(self.drawn.drawn(cells(nodes.result[mine], half))[1], torch.full((len(mine),), half))
            nodes.context[mine] = self.contexts.add(paths.tensors()) + np.arange(len(mine))
        parent, onward = nodes.parent[ids], nodes.onward[ids]
        nodes.left[ids], nodes.right[ids] = nodes.result[ids], 1
        nodes.start[ids] += nodes.size[ids]
        nodes.size[ids], nodes.beyond[ids] = nodes.size[parent] - nodes.size[ids], nodes.beyond[parent]
        nodes.state[ids] = LAWS
        nodes.draft[ids] = nodes.result[ids] = nodes.onward[ids] = NONE
        ready = onward != NONE
        return self._begin(ids[ready], onward[ready])

    def _judge(self, ids: Ints) -> None:
        """Candidates whose halves are drawn are y ~ mu_S, each accepted or not. It takes no query: what mu_S(y) is the
        halves know, and nu_S is the draft."""
        nodes = self.nodes
        for group in together(nodes.size[nodes.parent[ids]]):
            mine = ids[group]
            parent = nodes.parent[mine]
            size = int(nodes.size[parent[0]])
            half = (size + 1) // 2
            halves = [cells(nodes.left[mine], half), cells(nodes.result[mine], size - half)]
            target, values = self.drawn.drawn(np.concatenate(halves, axis=1))
            draft = self.drafts.law(cells(nodes.draft[parent], size))
            uniform = self._uniform(Purpose.CORRECT, mine, nodes.start[parent])
            log_ratio = target.log_ratio(draft, values).sum(1)
            accepted = self.sampler.accepts_candidate(uniform, log_ratio, nodes.index[mine]).cpu()
            nodes.state[mine], nodes.result[mine] = ENDED, NONE
            kept = accepted.nonzero()[:, 0]
            self._found(mine[kept.numpy()], kept, target, values, None)

    def _decide(self, parents: Ints) -> tuple[Ints, Ints]:
        """The lowest accepted candidate wins once those below it have ended; those above it are dropped.
        -> nodes whose segment is drawn, and nodes of whose candidates none was accepted; without those that a decision
        further up has dropped at the same time."""
        nodes = self.nodes
        place = np.full(len(nodes) + 1, NONE)
        place[parents] = np.arange(len(parents))
        children = ((place[nodes.parent] != NONE) & (nodes.state != DROPPED)).nonzero()[0]
        of, index, running = place[nodes.parent[children]], nodes.index[children], nodes.state[children] != ENDED
        accepted = ~running & (nodes.result[children] != NONE)
        none = nodes.ended[parents]
        lowest = none.copy()
        np.minimum.at(lowest, of[accepted], index[accepted])
        open_below = np.bincount(of[running & (index < lowest[of])], minlength=len(parents))
        settled = self.sampler.settled(open_below, lowest < none)
        won = children[settled[of] & (index == lowest[of])]
        winners = nodes.parent[won]
        nodes.result[winners], nodes.onward[winners] = nodes.result[won], nodes.onward[won]
        nodes.drop(children[settled[of] | (index > lowest[of])])
        exhausted = parents[settled & (lowest == none)]
        return winners[nodes.state[winners] != DROPPED], exhausted[nodes.state[exhausted] != DROPPED]

    # Roots

    def _root(self, rows: Ints, onward: Ints) -> Ints:
        """Begin the next segment of these rows of the paths; at `onward` are laws to draft it from, or NONE. -> those
        drawn at once."""
        if not len(rows):
            return rows
        index, keys = torch.from_numpy(rows), self.paths.stream.keys.cpu().numpy()[rows]
        tensors = {name: tensor[index.to(tensor.device)] for name, tensor in self.paths.tensors().items()}
        room = self.paths.stretch.numpy()[rows]
        size = np.minimum(self.wish[rows], room)
        following = self.sampler.next_segment(self.wish[rows], np.ones(len(rows), dtype=bool))
        ids = self.nodes.add(
            row=rows,
            key=keys[:, 0],
            key_low=keys[:, 1],
            context=self.contexts.add(tensors) + np.arange(len(rows)),
            start=self.paths.position.numpy()[rows],
            size=size,
            beyond=np.minimum(following, room - size),
            state=LAWS,
        )
        return self._begin(ids[onward != NONE], onward[onward != NONE])

    def _commit(self, ids: Ints) -> Ints:
        """Segments of roots are drawn for good; the roots go on with what is left of their samples. -> those of which
        the next segment is drawn at once."""
        if not len(ids):
            return ids
        nodes, paths = self.nodes, self.paths
        count = np.zeros(len(paths), dtype=np.int64)
        first, onward = np.zeros_like(count), np.full_like(count, NONE)
        rows = nodes.row[ids]
        count[rows], first[rows], onward[rows] = nodes.size[ids], nodes.result[ids], nodes.onward[ids]
        self.wish[rows] = self.sampler.next_segment(self.wish[rows], nodes.state[ids] == VERIFY)
        padding = np.minimum(np.arange(count.max()), np.maximum(count - 1, 0)[:, None])
        live = paths.commit(self.drawn.drawn(first[:, None] + padding)[1], torch.from_numpy(count)).numpy()
        number = np.full(len(count), NONE)
        number[live] = np.arange(len(live))
        nodes.row, self.wish = number[nodes.row], self.wish[live]
        nodes.drop(ids)
        again = rows[number[rows] != NONE]
        return self._root(number[again], onward[again])

    # Where things are

    def _paths(self, ids: Ints) -> Paths:
        """The paths before the segments of nodes, each with the noise of its node."""
        return self.paths.made_of(self.contexts.at(self.nodes.context[ids])).branch(self._stream(ids))

    def _stream(self, ids: Ints, device: torch.device | str | None = None) -> Stream:
        keys = torch.from_numpy(np.stack([self.nodes.key[ids], self.nodes.key_low[ids]], axis=1))
        return Stream(keys.to(self.paths.device if device is None else device))

    def _uniform(self, purpose: Purpose, ids: Ints, step: Ints) -> Tensor:
        steps = torch.from_numpy(step).to(self.paths.device)
        return self._stream(ids).uniform(purpose, steps)

    def _sweep(self) -> None:
        """Forget nodes that are done with, and now and then what only they referred to."""
        nodes = self.nodes
        nodes.clear()
        if self.contexts.full:
            nodes.context = self.contexts.sweep([nodes.context])[nodes.context]
        if self.drafts.heap.full:
            live = [*_ranges(nodes.draft, nodes.size), *_ranges(nodes.onward, _beyond(nodes))]
            moved = self.drafts.heap.sweep(live)
            nodes.draft, nodes.onward = moved[nodes.draft], moved[nodes.onward]
        if self.drawn.heap.full:
            whole = nodes.size[nodes.parent]
            live = [*_ranges(nodes.left, (whole + 1) // 2), *_ranges(nodes.result, whole)]
            moved = self.drawn.heap.sweep(live)
            nodes.left, nodes.result = moved[nodes.left], moved[nodes.result]


def _beyond(nodes: Nodes) -> Ints:
    """How many laws there are at `onward`, of candidates that were accepted and wait for others."""
    return nodes.beyond[nodes.parent]


def _ranges(first: Ints, width: Ints) -> list[Ints]:
    """The addresses of all cells of ranges, those of equal width together."""
    some = (first != NONE).nonzero()[0]
    return [cells(first[some[group]], int(width[some[group[0]]])) for group in together(width[some])]
