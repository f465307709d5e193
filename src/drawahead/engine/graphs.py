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
from drawahead.engine.fingerprint import Fingerprint, fingerprint, settings_of
from drawahead.samplers.window import WindowSampler

_MOST = 8
ASYNCHRONOUS = {"cuda"}
"""Devices that work while Python does."""


class Kept(NamedTuple):
    """Captured rounds that no call uses now."""

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
        self._kept: list[Kept] = []
        self._lock = threading.RLock()  # a model may go, and be dropped, while it is held

    def __repr__(self) -> str:
        return f"Graphs(most={self.most})"

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def likely(self, chain: Chain, sampler: WindowSampler, fresh: Paths) -> Kept | None:
        """The batch last kept that may do, if a round of it can be begun before that is known.

        Such a round can do no harm: all memory that it reads is still there, and it writes into none of the model's.
        """
        if chain.device.type not in ASYNCHRONOUS:
            return None
        settings, owner = settings_of(chain, sampler, fresh), chain.owner
        with self._lock:
            for i in reversed(range(len(self._kept))):
                kept = self._kept[i]
                if kept.batch.begins_early and kept.owner() is owner and kept.fingerprint.may_hold(settings):
                    kept.batch.forgive()
                    return self._kept.pop(i)
        return None

    def take(
        self, chain: Chain, sampler: WindowSampler, fresh: Paths, likely: Kept | None = None
    ) -> tuple[Batch, Fingerprint | None]:
        """A batch with as many rows: one that was kept, if it may be used again. And what it was captured from."""
        found = fingerprint(chain, sampler, fresh)
        if likely is not None and found is not None and likely.fingerprint == found:
            return likely.batch, likely.fingerprint
        if likely is not None:
            likely.batch.wait()
        with self._lock:
            self._kept += [] if likely is None else [likely]
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
        if batch.captured_since_kept:
            after = fingerprint(chain, sampler, batch.paths)
            if after is None or after != before:
                return
            batch.begins_early &= after.versions == before.versions  # else the model writes into its own tensors
        batch.captured_since_kept = False
        before.watch()
        owner = weakref.ref(chain.owner, self._drop)
        with self._lock:
            self._kept.append(Kept(owner, before, batch))
            del self._kept[: -self.most]

    def _drop(self, owner: Any) -> None:
        with self._lock:
            self._kept = [kept for kept in self._kept if kept.owner is not owner]


GRAPHS = Graphs()
"""What `sample` uses. `drawahead.graphs.clear()` empties it."""
