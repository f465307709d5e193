"""Captured rounds that are kept for the next call: where they are, and when they may be used again.

A graph replays what a model did when it was captured. So it is used again only if nothing that could change an answer
has changed since: see `fingerprint`. Whatever cannot be looked into is captured anew.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, NamedTuple, final

from drawahead.chains.base import Chain, Paths
from drawahead.engine.captured import Batch
from drawahead.engine.fingerprint import Fingerprint, fingerprint
from drawahead.samplers.window import WindowSampler

_MOST = 8


class _Kept(NamedTuple):
    owner: Any  # a weak reference
    fingerprint: Fingerprint
    batch: Batch


@final
class Graphs:
    """Captured rounds of models drawn from before, the most recent ones. `clear()` gives their memory back.

    Those of a model go when the model goes. No two calls share any: a batch that is in use is not in here.
    """

    def __init__(self, most: int = _MOST) -> None:
        self.most = most
        self._kept: list[_Kept] = []
        self._lock = threading.RLock()  # a model may go, and be dropped, while it is held

    def __repr__(self) -> str:
        return f"Graphs(most={self.most})"

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def take(self, chain: Chain, sampler: WindowSampler, fresh: Paths) -> tuple[Batch, Fingerprint | None]:
        """A batch with as many rows: one that was kept, if it may be used again. And what it was captured from."""
        found = fingerprint(chain, sampler, fresh)
        with self._lock:
            self._kept = [kept for kept in self._kept if kept.fingerprint.possible]
            for i, kept in enumerate(self._kept):
                if found is not None and kept.fingerprint == found:
                    del self._kept[i]
                    kept.batch.forgive()
                    return kept.batch, kept.fingerprint
        return Batch(sampler, fresh), found

    def give_back(self, chain: Chain, sampler: WindowSampler, batch: Batch, before: Fingerprint | None) -> None:
        """Keep a batch whose call has ended, if the model is the one that it began with."""
        if not batch.graphs or before is None:
            return
        if batch.captured_since_kept and fingerprint(chain, sampler, batch.paths) != before:
            return
        batch.captured_since_kept = False
        before.watch()
        owner = weakref.ref(chain.owner, self._drop)
        with self._lock:
            self._kept.append(_Kept(owner, before, batch))
            del self._kept[: -self.most]

    def _drop(self, owner: Any) -> None:
        with self._lock:
            self._kept = [kept for kept in self._kept if kept.owner is not owner]


GRAPHS = Graphs()
"""What `sample` uses. `drawahead.graphs.clear()` empties it."""
