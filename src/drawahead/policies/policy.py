"""Diffusion policies of robots, drawn in parallel rounds: LeRobot's, and those of the diffusion_policy repository."""

from __future__ import annotations

import copy
import inspect
import time
from collections import deque
from collections.abc import Collection
from typing import Any, Self, cast, final

import torch
from torch import Tensor, nn

from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.chain import from_diffusers
from drawahead.errors import InputError, SamplingError
from drawahead.policies.loop import ActionChunks, chunks, path_to_loop
from drawahead.policies.timing import Deadline, Latency
from drawahead.randomness import checked_seed
from drawahead.report import Report
from drawahead.rounds.run import device_error
from drawahead.runner import Runner
from drawahead.samplers import Coupled, Sampler, Sequential
from drawahead.samplers.record import as_sampler
from drawahead.samplers.window import WindowSampler
from drawahead.validate import number

__all__ = ["Accelerated", "accelerate", "policy"]

_LOOP = "conditional_sample"
_CALLS = 2000  # that percentiles are taken over


def policy(
    model: Any,
    *,
    sampler: Sampler | str | None = None,
    deadline_ms: float | None = None,
    seed: int | None = None,
    graphs: bool | None = None,
    compile: bool = False,  # noqa: A002
) -> Any:
    """A copy of a diffusion policy that draws its action chunks in parallel rounds; `model` itself is not changed.

    The copy has the class of `model`, shares its networks and is used in the same way (`select_action`,
    `predict_action`, `conditional_sample`), with its own queues of observations and actions. `copy.drawahead`, an
    `Accelerated`, holds the report and the latencies. The arguments are those of `accelerate`.
    """
    path = path_to_loop(model)
    twin = _twin(model, path)
    if callable(getattr(twin, "reset", None)):
        twin.reset()
    twin.drawahead = accelerate(
        twin, sampler=sampler, deadline_ms=deadline_ms, seed=seed, graphs=graphs, compile=compile
    )
    return twin


def accelerate(
    model: Any,
    *,
    sampler: Sampler | str | None = None,
    deadline_ms: float | None = None,
    seed: int | None = None,
    graphs: bool | None = None,
    compile: bool = False,  # noqa: A002
) -> Accelerated:
    """Have a diffusion policy draw its action chunks in parallel rounds, from now on, until `.undo()`.

    model: a policy with a method `conditional_sample` and a `noise_scheduler` of diffusers, or with such an object as
        its `diffusion` or `objective`. Nothing but `conditional_sample` is replaced, and neither library is imported.
    sampler: how to draw. By default the first call for a number of observations measures and chooses (`Auto`), and
        later calls use its choice; with a deadline, `Coupled` over all steps.
    deadline_ms: a call that would take longer finishes with unverified drafts; its report counts them and says that it
        is not exact. The first call for a batch size builds the chain: the deadline does not apply to it.
    seed: fixes the noise of all calls without a generator.
    graphs: as in `sample`.
    compile: put the network through `torch.compile`: the first call takes longer, later ones less time.
    """
    owner = model
    for name in path_to_loop(model):
        owner = getattr(owner, name)
    return Accelerated(owner, sampler, deadline_ms, seed, graphs, compile)


@final
class Accelerated:
    """Replaces a policy's `conditional_sample`, with the same arguments, and holds the report of the last call.

    At the end of a `with` block the policy gets its own loop back.
    """

    report: Report | None
    """What the last call cost; None if it failed."""
    chain: GaussianChain | None
    """What the last call drew from, such as `drawahead time` takes."""

    def __init__(
        self,
        owner: Any,
        sampler: Sampler | str | None,
        deadline_ms: float | None,
        seed: int | None,
        graphs: bool | None,
        compile: bool = False,  # noqa: A002
    ) -> None:
        if isinstance(vars(owner).get(_LOOP), Accelerated):
            raise InputError(f"this {type(owner).__name__} is accelerated already: call .undo() first")
        sampler = as_sampler(sampler)
        if deadline_ms is not None:
            deadline_ms = number("deadline_ms", deadline_ms, above=0)
            drafts = isinstance(sampler, WindowSampler) and not isinstance(sampler, Sequential)
            if sampler is not None and (not drafts or (isinstance(sampler, Coupled) and sampler.least)):
                raise InputError(
                    f"deadline_ms needs a sampler that always has drafts, such as Coupled(), not {sampler!r}"
                )
        self._owner, self._own = owner, getattr(owner, _LOOP)
        self._signature = inspect.signature(self._own)
        self._sampler, self._deadline, self._graphs, self._compiled = sampler, deadline_ms, graphs, compile
        self._noise = None if seed is None else torch.Generator().manual_seed(checked_seed(seed) % 2**63)
        self._runners: dict[Any, Runner] = {}  # one for each kind of call
        self._calls: deque[tuple[float, bool]] = deque(maxlen=_CALLS)
        self.report = self.chain = None
        setattr(owner, _LOOP, self)

    def undo(self) -> None:
        """Give the policy its own loop back, and the memory of captured rounds; a second time nothing happens."""
        if vars(self._owner).get(_LOOP) is self:
            delattr(self._owner, _LOOP)
        self._keep(())

    def _keep(self, keys: Collection[Any]) -> None:
        """Close all runners but these."""
        for key in [key for key in self._runners if key not in keys]:
            self._runners.pop(key).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    @property
    def latency(self) -> Latency:
        """How long the latest calls took."""
        return Latency.of(self._calls)

    @torch.no_grad()
    def __call__(self, *arguments: Any, **named: Any) -> Tensor:
        """Action chunks (observations, horizon, entries of an action), for the policy's own arguments."""
        began = time.perf_counter()
        self.report = self.chain = None  # of a call that fails there is none
        wanted = chunks(self._owner, self._signature, arguments, named)
        key = wanted.key
        known = key in self._runners
        runner = self._runners[key] if known else self._runner(wanted)
        chain = runner.chain
        assert isinstance(chain, GaussianChain)
        late = Deadline(began, self._deadline) if known and self._deadline is not None else None
        chain = chain.for_samples(start=wanted.start, known=wanted.known, condition=wanted.condition)
        mine, noise = runner.using(chain=chain), wanted.generator or self._noise
        try:
            result = mine.sample(wanted.number, generator=noise, max_live=wanted.number, hurry=late)
            if not known and not self._compiled:  # to compile for more widths would take minutes
                mine.warm_up(wanted.number)
            actions = result.samples.to(wanted.dtype)
            finite = bool(actions.isfinite().all())  # on the CPU: a device would have to be waited for
            actions = actions.to(wanted.device)
        except Exception as error:
            if (lost := device_error(error)) is not None:
                raise SamplingError(
                    f"the device failed, and no action was drawn: stop the robot and start the process again ({lost})",
                    cast(Any, getattr(error, "result", None)),  # what was drawn may not be readable any more
                ) from error
            raise
        if not finite:
            raise SamplingError(f"the actions are not finite in {wanted.dtype}, so none is returned", result)
        self.report, self.chain, self._runners[key] = result.report, chain, runner
        if known:
            self._calls.append((time.perf_counter() - began, not result.report.exact and late is not None))
        return actions

    def _runner(self, wanted: ActionChunks) -> Runner:
        """For one kind of call; later ones bring other observations."""
        sampler = self._sampler
        if sampler is None and self._deadline is not None:
            sampler = Coupled(window=max(1, wanted.steps - 1))
        self._keep([key for key in self._runners if key[0] == id(wanted.network)])
        return Runner(self._chain(wanted), sampler, compile=self._compiled, graphs=self._graphs)

    def _chain(self, wanted: ActionChunks) -> GaussianChain:
        chain = from_diffusers(
            wanted.network,
            wanted.scheduler,
            num_inference_steps=wanted.steps,
            step_options=wanted.options,
            condition=wanted.condition,
            shape=wanted.shape,
            start=wanted.start,
            known=wanted.known,
            clean=True,
            device=wanted.device,
        )
        plan = chain.plan
        if not bool(plan.s.any()):
            remedy = "use the DDPM scheduler that the policy was trained with, or DDIM with eta=1"
            if torch.allclose(plan.signal + plan.noise, torch.ones_like(plan.noise)):  # straight lines to the noise
                remedy = "for flow matching use FlowMatchEulerDiscreteScheduler with stochastic_sampling=True"
            raise InputError(
                f"no step of {type(wanted.scheduler).__name__} is random here, so none can be drawn ahead: {remedy}"
            )
        return chain


def _twin(model: Any, path: tuple[str, ...]) -> Any:
    """A shallow copy of a policy and of what leads to its loop; all else is shared."""
    twin = copy.copy(model)
    if isinstance(model, nn.Module):
        vars(twin)["_modules"] = dict(model._modules)
    if path:
        setattr(twin, path[0], _twin(getattr(model, path[0]), path[1:]))
    vars(twin).pop(_LOOP, None)  # that of the original, if it is accelerated
    return twin
