"""A chain with all that outlives a call: captured rounds, compiled code, workers, and which sampler was chosen."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, final

import torch

from drawahead.chains.base import Chain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError, Interrupted, SamplingError
from drawahead.oracles.condition import Condition
from drawahead.oracles.tokens import TokenOracle
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.rounds.captured.held import Held, captured_run
from drawahead.rounds.measuring import chosen, not_captured, outcome
from drawahead.rounds.packed import PackedRun
from drawahead.rounds.run import Call, ModelChanged, NotCaptured, Result, Run, Stop, Watch, device_error
from drawahead.rounds.threads import Executor
from drawahead.samplers.base import Sampler, as_sampler
from drawahead.samplers.coupled import Auto
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler
from drawahead.show.progress import RunProgress, bar, watching
from drawahead.validate import short, whole

if TYPE_CHECKING:
    from drawahead.oracles.denoisers import DenoisingTarget

    Target = Chain | TokenOracle | DenoisingTarget | Callable[..., Any]
else:
    Target = Any  # tokens need no code of diffusions
_OWN: weakref.WeakKeyDictionary[Any, Runner] = weakref.WeakKeyDictionary()
"""The own runner of a chain, or of an oracle that is given itself: it goes when they go."""


@final
class Runner:
    """Draws from one chain, call after call, and owns whatever makes later calls faster.

    target: what `sample` takes.
    sampler: how to draw; by default one is chosen for each number of samples drawn together, once.
    executor: what answers rounds; `close` closes it, too.
    compile: put the model through `torch.compile`: quicker once it is compiled, equal up to rounding.
    graphs, max_batch_size: as in `sample`.

    Calls from several threads wait for each other. Two runners share nothing. Weights may change in place between
    calls; other changes of the model are noticed before captured rounds are used again (see docs/design.md, "What a
    runner holds"). `recapture()` forces a new capture.
    """

    def __init__(
        self,
        target: Target,
        sampler: Sampler | str | None = None,
        executor: Executor | None = None,
        *,
        compile: bool = False,  # noqa: A002
        graphs: bool | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        chain = as_chain(target)
        self.chain = chain.compiled() if compile else chain
        """What it draws from."""
        self.report: Report | None = None
        """What the last call cost; None before the first one, and after one that failed."""
        self.sampler = as_sampler(sampler)
        """What it draws with, if it need not choose."""
        self._executor, self._graphs, self._max_batch_size = executor, graphs, max_batch_size
        self._held = Held()
        self._check()

    def _check(self) -> None:
        executor, graphs = self._executor, self._graphs
        if self._max_batch_size is not None:
            whole("max_batch_size", self._max_batch_size, 1)
            if executor is not None:
                raise InputError("give max_batch_size to the executor, not beside it")
        if graphs and (executor is not None or self._max_batch_size is not None):
            raise InputError("captured rounds are not split: give graphs=True without executor and max_batch_size")

    def using(
        self,
        *,
        chain: Chain | None = None,
        sampler: Sampler | str | None = None,
        executor: Executor | None = None,
        graphs: bool | None = None,
        max_batch_size: int | None = None,
    ) -> Runner:
        """This runner with other settings. Both share what they hold: each uses the rounds that the other captured,
        closing one closes both, and their calls wait for each other.

        chain: this runner's chain with other values for its samples (start, known entries, evidence, condition), as its
            `replace` returns it. With tensors of the same shapes nothing is captured again.
        """
        other = copy.copy(self)
        other.chain, other.report = self.chain if chain is None else chain, None
        if sampler is not None:
            other.sampler = sampler if isinstance(sampler, Sampler) else as_sampler(sampler)
        other._executor = self._executor if executor is None else executor
        other._graphs = self._graphs if graphs is None else graphs
        other._max_batch_size = self._max_batch_size if max_batch_size is None else max_batch_size
        other._check()
        return other

    def sample(
        self,
        num_samples: int = 1,
        *,
        first: int = 0,
        seed: int | None = None,
        generator: torch.Generator | None = None,
        condition: Condition = None,
        max_live: int = 1024,
        on_round: Callable[[Report], None] | None = None,
        stop: Stop | None = None,
        hurry: Stop | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Draw samples, as `drawahead.sample` does.

        condition: another condition than the chain's; with tensors of the same shapes nothing is captured again.
        """
        self.report = None
        watch = Watch(on_round, stop, hurry)
        if hurry is not None and (not isinstance(self.sampler, WindowSampler) or isinstance(self.sampler, Sequential)):
            raise InputError(f"hurry needs a sampler that drafts windows, such as Coupled(), not {short(self.sampler)}")
        call = self._call(num_samples, first, seed, generator, max_live, condition)
        run: Run | None = None
        try:
            with self._held.lock, torch.no_grad(), ExitStack() as opened:
                if progress:
                    line = opened.enter_context(bar())
                    watch = replace(watch, on_round=watching(on_round, line, RunProgress(call.num_samples)))
                if not watch.stops:
                    run = start(call, self._held)
                    while True:
                        try:
                            run.drive(watch)
                            break
                        except ModelChanged:
                            again = run.call
                        except NotCaptured as error:
                            again = not_captured(run.call, error)
                        run.close()
                        run = start(again, self._held)
                    if run.call.chosen is not None:
                        run.call = replace(run.call, choice=outcome(run))
        except KeyboardInterrupt as error:
            result = (run or PackedRun(call)).result()
            words = f"interrupted with {len(result.samples)} of {call.num_samples} samples finished"
            raise Interrupted(words, result) from error
        except Exception as error:
            if (lost := device_error(error)) is None:
                raise
            result = (run or PackedRun(call)).result()
            words = f"{len(result.samples)} of {call.num_samples} samples were finished (they are in .result)"
            raise SamplingError(f"the device failed ({lost}); {words}: start the process again", result) from error
        finally:
            if run is not None:
                with suppress(torch.AcceleratorError):  # which was said already, or will be when it is used again
                    run.close()
        result = (run or PackedRun(call)).result()
        self.report = result.report
        return result

    def settle(self, num_samples: int = 1, *, seed: int | None = None, max_live: int = 1024) -> Call:
        """Prepare a call for so many samples without drawing: its `sampler`, chosen if need be, the `choice` in words,
        and the `probes` spent on it."""
        call = self._call(num_samples, 0, seed, None, max_live)
        with self._held.lock, torch.no_grad():
            return settled(call, self._held)

    def warm_up(self, num_samples: int = 1) -> None:
        """Capture all rounds that calls for so many samples may need; does nothing where rounds are not captured."""
        call = self.settle(num_samples, max_live=num_samples)
        if call.captured and isinstance(call.sampler, WindowSampler):
            with self._held.lock, torch.no_grad(), suppress(NotCaptured):
                try:
                    with closing(captured_run(call, self._held)) as run:
                        run.prepare(every=True)
                except ModelChanged:
                    self.warm_up(num_samples)

    def recapture(self) -> None:
        """Drop captured rounds, so that the next call captures the model again."""
        with self._held.lock:
            self._held.clear()

    def close(self) -> None:
        """Release everything the runner holds: captured rounds, their memory, and the executor's workers."""
        self._held.closed = True
        self.recapture()
        closing_too = getattr(self._executor, "close", None)
        if callable(closing_too):
            closing_too()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Runner of {self.chain!r}{', closed' if self._held.closed else ''}>"

    def _call(
        self,
        num_samples: int,
        first: int,
        seed: int | None,
        generator: torch.Generator | None,
        max_live: int,
        condition: Condition = None,
    ) -> Call:
        """A call, checked."""
        if self._held.closed:
            raise InputError("this runner is closed: make another one")
        chain = self.chain if condition is None else self.chain.replace(condition=condition)
        num_samples, max_live = whole("num_samples", num_samples, 1), whole("max_live", max_live, 1)
        if whole("first", first, 0) + num_samples > 2**63:
            raise InputError(f"first must leave the numbers of samples below 2^63, not be {short(first)}")
        if not chain.foresees and self.sampler is not None and self.sampler.foresight:
            raise InputError(
                f"{self.sampler!r} drafts later steps from the answer about one, which a left-to-right model cannot "
                "give: use Coupled() or Sequential()"
            )
        chain.check(first + num_samples)
        how = self._executor, self._max_batch_size, self._graphs
        live = min(max_live, num_samples)
        return Call(chain, self.sampler or Auto(), seed_from(seed, generator), num_samples, live, first, *how)


def own_runner(
    target: Target,
    sampler: Sampler | str | None = None,
    executor: Executor | None = None,
    graphs: bool | None = None,
    max_batch_size: int | None = None,
) -> Runner:
    """A target's own runner, as a call of `sample` uses it."""
    chain = as_chain(target)
    try:
        own = _OWN.get(target)
    except TypeError:  # a function that nothing can be remembered of
        return Runner(chain, sampler, executor, graphs=graphs, max_batch_size=max_batch_size)
    if own is None:
        own = Runner(chain)
        del own.chain  # or the target would never go
        own = _OWN.setdefault(target, own)
    return own.using(chain=chain, sampler=sampler, executor=executor, graphs=graphs, max_batch_size=max_batch_size)


def settled(call: Call, held: Held) -> Call:
    """The call with its sampler, chosen if need be."""
    if isinstance(call.sampler, Auto):
        return chosen(call, held)
    if call.graphs and not isinstance(call.sampler, WindowSampler):
        raise InputError(f"graphs=True needs a sampler that draws in windows, such as Coupled(): {call.sampler!r}")
    return call


def start(call: Call, held: Held) -> Run:
    """The run for a call: captured if that is wanted and possible."""
    call = settled(call, held)
    return captured_run(call, held) if call.captured and isinstance(call.sampler, WindowSampler) else PackedRun(call)


def as_chain(target: Target) -> Chain:
    """The chain itself, or the natural one for an oracle or a denoising target."""
    if isinstance(target, Chain):
        return target
    if isinstance(target, TokenOracle):
        return TokenChain(target)
    from drawahead.chains.gaussian import GaussianChain
    from drawahead.oracles.denoisers import DenoisingTarget

    if isinstance(target, DenoisingTarget):
        return GaussianChain(target)
    if callable(getattr(target, "chain", None)):
        raise InputError(f"target is a {type(target).__name__}: give what its .chain(...) returns, such as a prompt's")
    return TokenChain(target)
