"""Diffusion policies draw what their own loops draw, call after call, and say when they did not."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, InputError, Recursive, SamplingError, Sequential
from drawahead.adapters import from_diffusers
from drawahead.policies.timing import Deadline, Latency
from drawahead.randomness import Purpose, Stream, seed_from
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.verification.statistics import same_law
from tests.exactness import LEVEL

diffusers = pytest.importorskip("diffusers")
from tests.adapters import tiny_policies as tiny  # noqa: E402

Check = Callable[[float], None]
ROWS, SEED = 3, 7
SHAPE = (tiny.HORIZON, tiny.ACTION)


def seen(rows: int = ROWS, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, tiny.HISTORY, tiny.OBSERVED, generator=generator, dtype=torch.float64)


def inpainted(rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """The first action of each chunk is known, and of the last row the second, too."""
    data = torch.full((rows, *SHAPE), 0.3, dtype=torch.float64)
    mask = torch.zeros(rows, *SHAPE, dtype=torch.bool)
    mask[:, 0], mask[-1, 1] = True, True
    return data, mask


SEEN = seen()
OBS = SEEN.flatten(1)
LOCAL = seen(ROWS * 4).view(ROWS, tiny.HORIZON, -1)
Call = Callable[[Any], Tensor]
CALLS: dict[str, tuple[Callable[[], Any], Call]] = {
    "lerobot": (tiny.LeRobotModel, lambda p: p.conditional_sample(ROWS, global_cond=OBS)),
    "lerobot chunk": (tiny.LeRobotModel, lambda p: p.generate_actions({"observation.state": SEEN})),
    "lerobot policy": (tiny.LeRobotPolicy, lambda p: p.select_action({"observation.state": SEEN[:, 0]})),
    "multitask": (tiny.MultiTask, lambda p: p.predict_action_chunk(SEEN)),
    "unet": (tiny.UnetPolicy, lambda p: p.predict_action({"obs": SEEN})["action_pred"]),
    "unet, local": (
        tiny.UnetPolicy,
        lambda p: p.conditional_sample(*inpainted(), local_cond=LOCAL),
    ),
    "unet, inpainted": (tiny.UnetPolicy, lambda p: p.conditional_sample(*inpainted(), None, OBS)),
    "transformer": (tiny.TransformerPolicy, lambda p: p.conditional_sample(*inpainted(), cond=SEEN)),
}


def made(name: str) -> tuple[Any, Call]:
    make, call = CALLS[name]
    return make().eval(), call


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has loops of torch and diffusers draw the noise of a seed, each step's own, in float64."""

    def install(seed: int) -> None:
        drawn = iter(range(-1, 10_000))

        def normal(*size: Any, **options: Any) -> Tensor:
            shape = tuple(size[0]) if isinstance(size[0], tuple | torch.Size) else size
            stream, step = Stream.of_samples(seed, torch.arange(shape[0])), next(drawn)
            purpose = Purpose.START if step < 0 else Purpose.VALUE
            at = torch.full((shape[0],), max(0, step))
            return stream.normal(purpose, at, size=shape[1] * shape[2]).view(shape)

        monkeypatch.setattr(torch, "randn", normal)
        module = __import__("diffusers.schedulers.scheduling_ddpm", fromlist=["randn_tensor"])
        monkeypatch.setattr(module, "randn_tensor", normal)

    return install


def first_seed(seed: int) -> int:
    return seed_from(None, torch.Generator().manual_seed(seed))


def in_float64(policy: Any) -> None:
    """Has the loop's own scheduler work in float64, on its own tables."""
    inside = getattr(policy, "diffusion", getattr(policy, "objective", policy))
    inside.noise_scheduler.alphas_cumprod = inside.noise_scheduler.alphas_cumprod.double()
    inside.noise_scheduler.one = inside.noise_scheduler.one.double()


def both(name: str, same_noise: Callable[[int], None]) -> tuple[Tensor, Tensor]:
    """What is drawn step by step, and what the policy's own loop draws, with one noise."""
    policy, call = made(name)
    ours = call(da.adapters.policy(policy, sampler=Sequential(), seed=SEED))
    in_float64(policy)
    same_noise(first_seed(SEED))
    with torch.no_grad():
        return ours, call(policy)


@pytest.mark.parametrize("name", CALLS)
def test_step_by_step_it_is_the_policys_own_loop(name: str, same_noise: Callable[[int], None]) -> None:
    ours, theirs = both(name, same_noise)
    assert ours.dtype == theirs.dtype == torch.float64 and ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


MUTANTS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "what is known is noised": ("unet, inpainted", lambda given: given | {"clean": False}),
    "what is known is forgotten": ("unet, inpainted", lambda given: given | {"known": None}),
    "one step less": ("lerobot", lambda given: given | {"num_inference_steps": tiny.STEPS - 1}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_chain_that_is_not_the_loop_is_noticed(
    name: str, same_noise: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, change = MUTANTS[name]

    def broken(network: Any, scheduler: Any, **given: Any) -> GaussianChain:
        return from_diffusers(network, scheduler, **change(given))

    monkeypatch.setattr("drawahead.policies.policy.from_diffusers", broken)
    if name == "what is known is forgotten":
        own = GaussianChain.for_samples
        monkeypatch.setattr(GaussianChain, "for_samples", lambda chain, **given: own(chain, **given | {"known": None}))
    ours, theirs = both(call, same_noise)
    assert not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_later_calls_read_their_own_observations() -> None:
    """What a call after the first draws is what a policy draws that has met nothing else."""
    model, noise = tiny.LeRobotModel().eval(), functools.partial(torch.Generator().manual_seed, SEED)
    used, fresh = (da.adapters.policy(model, sampler=Coupled(8)) for _ in range(2))
    first = used.conditional_sample(ROWS, OBS, generator=noise())
    later, alone = (p.conditional_sample(ROWS, OBS.flip(0), generator=noise()) for p in (used, fresh))
    assert torch.equal(later, alone) and not torch.allclose(later, first, atol=1e-3)


@pytest.mark.parametrize("name", ["lerobot", "unet, inpainted"])
def test_parallel_rounds_have_the_law_of_the_loop(name: str, check: Check) -> None:
    """One observation, many chunks; the loop draws by torch's own noise."""
    many, one = 1500, seen(1)
    policy = CALLS[name][0]().eval()
    if name == "lerobot":
        call: Call = lambda p: p.conditional_sample(many, global_cond=one.flatten(1).expand(many, -1))  # noqa: E731
    else:
        data, mask = (part[:1].expand(many, -1, -1) for part in inpainted())
        call = lambda p: p.conditional_sample(data, mask, global_cond=one.flatten(1).expand(many, -1))  # noqa: E731
    twin = da.adapters.policy(policy, sampler=Coupled(8), seed=SEED)
    ours = call(twin)
    assert twin.drawahead.report.exact and twin.drawahead.report.mean_rounds < tiny.STEPS / 2
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(SEED)
        theirs = call(policy)
    free = slice(1, None) if name != "lerobot" else slice(None)
    check(same_law(ours[:, free].flatten(1), theirs[:, free].flatten(1)))


def test_what_is_known_stays_clean() -> None:
    policy, _ = made("unet")
    data, mask = inpainted()
    for sampler in (Sequential(), Coupled(), Block(4)):
        chunk = da.adapters.policy(policy, sampler=sampler).conditional_sample(
            data, mask, global_cond=seen().flatten(1)
        )
        assert torch.equal(chunk[mask], data[mask]) and bool((chunk[~mask] != data[~mask]).all())
    past = {"obs": seen(), "past_action": torch.full((ROWS, tiny.ACTION), 0.2, dtype=torch.float64)}
    with da.adapters.accelerate(policy, sampler=Coupled()):
        assert torch.allclose(policy.predict_action(past)["action_pred"][:, 0], past["past_action"])


def test_each_observation_has_its_own_actions() -> None:
    """Fifty environments share rounds: each chunk is what the observation gets in other company."""
    model = tiny.LeRobotModel().eval()

    def draw(rows: int) -> Tensor:
        twin = da.adapters.policy(model, sampler=Coupled(8), seed=SEED)
        chunk: Tensor = twin.conditional_sample(rows, global_cond=seen(50).flatten(1)[:rows])
        return chunk

    torch.testing.assert_close(draw(50)[:4], draw(4), rtol=1e-9, atol=1e-9)
    noise = torch.randn(2, *SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    given = da.adapters.policy(model, sampler=Coupled(8), seed=SEED)
    told = seen(2).flatten(1)
    assert not torch.allclose(given.conditional_sample(2, told, noise=noise), given.conditional_sample(2, told))
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    first, second = (given.conditional_sample(2, told, generator=g) for g in generators)
    assert torch.equal(first, second)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
def test_a_control_loop_builds_one_chain(graphs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """New observations are new rows of what is there: no chain, no batch, no measurement after the first call."""
    model = tiny.LeRobotModel().eval()
    mine = da.adapters.policy(model, sampler=Coupled(8), seed=SEED, graphs=graphs)
    mine.conditional_sample(1, global_cond=seen(1).flatten(1))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr("drawahead.policies.policy.from_diffusers", refuse)
    monkeypatch.setattr("drawahead.rounds.captured.run.CapturedBatch", refuse)
    chunks = [mine.conditional_sample(1, global_cond=seen(1, i).flatten(1)) for i in range(5)]
    assert len({float(chunk[0, 0, 0]) for chunk in chunks}) == 5
    assert mine.drawahead.latency.calls == 5
    again = da.adapters.policy(model, sampler=Coupled(8), seed=SEED, graphs=graphs)
    with pytest.raises(AssertionError, match="built again"):
        again.conditional_sample(1, global_cond=seen(1).flatten(1))


@pytest.mark.parametrize("sampler", [Coupled(8), Coupled(), Sequential()], ids=repr)
def test_nothing_is_captured_after_the_first_call(sampler: da.Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[Any] = []
    warm = CapturedBatch.warm

    def counting(self: CapturedBatch, chain: Any, shape: Any) -> None:
        captured.extend([shape] * (shape not in self.graphs))
        warm(self, chain, shape)

    monkeypatch.setattr(CapturedBatch, "warm", counting)
    mine = da.adapters.policy(tiny.LeRobotModel().eval(), sampler=sampler, seed=SEED, graphs=True)
    mine.conditional_sample(1, global_cond=seen(1).flatten(1))
    first = len(captured)
    for i in range(8):
        mine.conditional_sample(1, global_cond=seen(1, i).flatten(1))
    assert len(captured) == first >= (1 if isinstance(sampler, Sequential) else 4)


def test_what_is_measured_first_is_kept() -> None:
    mine = da.adapters.policy(tiny.LeRobotModel().eval(), seed=SEED)
    reports = []
    for i in range(3):
        mine.conditional_sample(1, global_cond=seen(1, i).flatten(1))
        reports.append(mine.drawahead.report)
    assert not reports[1].probes and not reports[2].probes
    assert len({report.sampler for report in reports}) == 1


def test_settings_that_change_are_followed() -> None:
    model = tiny.LeRobotModel().eval()
    mine = da.adapters.accelerate(model, sampler=Coupled(8))
    told = seen(1).flatten(1)
    model.conditional_sample(1, told)
    model.num_inference_steps = 12
    model.conditional_sample(1, told)
    assert mine.report is not None and mine.report.steps == 12
    model.noise_scheduler = tiny.scheduler(prediction_type="sample")
    model.unet = tiny.Counted().eval()
    model.conditional_sample(1, told)
    assert model.unet.calls == mine.report.rounds


def test_a_policy_is_patched_and_given_back() -> None:
    policy = tiny.LeRobotPolicy()
    policy.diffusion.unet = tiny.Counted()
    policy.eval()
    twin = da.adapters.policy(policy, sampler=Coupled(8))
    assert type(twin) is tiny.LeRobotPolicy and twin.diffusion.unet is policy.diffusion.unet
    assert "conditional_sample" not in vars(policy.diffusion) and twin._queues is not policy._queues
    mine = da.adapters.accelerate(policy, sampler=Coupled(8))
    with pytest.raises(InputError, match=r"accelerated already: call \.undo\(\) first"):
        da.adapters.accelerate(policy)
    actions = [policy.select_action({"observation.state": seen(2, i)[:, 0]}) for i in range(4)]
    assert actions[0].shape == (2, tiny.ACTION) and mine.report is not None
    assert mine.latency.calls == 1 and policy.diffusion.unet.calls >= mine.report.rounds  # three actions a chunk
    copied = copy.deepcopy(policy)
    copied.select_action({"observation.state": seen(2)[:, 0]})
    assert copied.diffusion.conditional_sample is not mine
    mine.undo()
    mine.undo()
    assert policy.diffusion.conditional_sample == type(policy.diffusion).conditional_sample.__get__(policy.diffusion)
    da.adapters.accelerate(policy).undo()


# Deadlines


class Slow(tiny.Network):
    def forward(self, *arguments: Any, **named: Any) -> Tensor:
        time.sleep(0.02)
        return super().forward(*arguments, **named)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.usefixtures("clock")
def test_a_deadline_is_kept_by_drafts_and_said(graphs: bool) -> None:
    model = tiny.LeRobotModel()
    model.unet = Slow()
    mine = da.adapters.policy(model.eval(), deadline_ms=70, seed=SEED, graphs=graphs)
    told = seen(2).flatten(1)
    assert mine.conditional_sample(2, told).isfinite().all() and mine.drawahead.report.exact  # it builds the chain
    rounds = mine.drawahead.report.rounds
    chunk, report = mine.conditional_sample(2, told), mine.drawahead.report
    assert chunk.isfinite().all() and not report.exact and report.rounds < rounds
    assert "taken from drafts that nothing verified" in report.choice and sum(report.committed) == 2 * tiny.STEPS
    assert mine.drawahead.latency.late == 1
    in_time = da.adapters.policy(model, deadline_ms=60_000, seed=SEED, graphs=graphs)
    for _ in range(2):
        in_time.conditional_sample(2, told)
    assert in_time.drawahead.report.exact and in_time.drawahead.latency.late == 0


class After:
    """Set after so many rounds."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def walk() -> da.GaussianChain:
    """A chain whose drafts are far off: each prediction pushes the state across to the other side."""
    schedule = da.DDPM(timesteps=da.schedules.spaced(12, 1000))
    return da.GaussianChain(lambda x, k: -3 * x, schedule, (1,), dtype=torch.float64)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", [Coupled(16, secant=False), Block(16), Coupled(4, secant=False)], ids=repr)
def test_a_call_in_haste_is_flagged_and_its_law_is_another(sampler: da.Sampler, graphs: bool, check: Check) -> None:
    """The flag is no formality: in haste the same check rejects what it accepts of calls that took their time."""
    draw = functools.partial(da.sample, walk(), 2000, sampler=sampler, seed=SEED, max_live=2000, graphs=graphs)
    calm, hasty = (draw(hurry=After(rounds)) for rounds in (1000, 0))
    assert calm.report.exact and not hasty.report.exact
    assert hasty.report.rounds < calm.report.rounds and hasty.complete
    assert sum(hasty.report.committed) == sum(calm.report.committed) == 2000 * 12
    reference = da.sample(walk(), 2000, sampler=Sequential(), seed=SEED + 1, max_live=2000).samples
    assert same_law(hasty.samples, reference) < LEVEL
    check(same_law(calm.samples, reference))


def test_haste_in_packed_and_captured_rounds_and_on_tokens() -> None:
    chain = da.TokenChain(da.targets.DenseLogistic(14, beta=1.5))
    for graphs in (False, True):
        result = da.sample(chain, 6, sampler=Coupled(20), seed=0, hurry=After(0), graphs=graphs)
        assert result.complete and not result.report.exact and sum(result.report.committed) == 6 * 14
        assert da.Report.from_dict(result.report.to_dict()).to_dict() == result.report.to_dict()
    never = da.sample(chain, 6, sampler=Coupled(20), seed=0, hurry=After(100))
    assert never.report.exact and torch.equal(never.samples, da.sample(chain, 6, sampler=Coupled(20), seed=0).samples)


def test_percentiles_and_the_end_of_a_deadline() -> None:
    latency = Latency.of([(i / 1e3, i > 98) for i in range(1, 101)])
    assert (latency.calls, latency.late) == (100, 2) and abs(latency.p50 - 50.5) < 1e-6 < latency.p95 < latency.p99
    assert "over 100 calls, of which 2 were finished by drafts" in str(latency)
    now = time.perf_counter()
    assert Deadline(now - 1, 500).is_set() and not Deadline(now, 60_000).is_set()


# Bad input


def nan() -> Tensor:
    table = seen().flatten(1)
    table[1, 0] = torch.nan
    return table


DDIM = lambda **options: diffusers.DDIMScheduler(num_train_timesteps=tiny.STEPS, **options)  # noqa: E731
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "rows": (lambda: mine().conditional_sample(2, OBS), "global_cond has 3 rows, but actions for 2 observations"),
    "nan": (lambda: mine().conditional_sample(ROWS, nan()), r"global_cond\[1\] is not finite: no action is drawn"),
    "training": (lambda: mine(train=True).conditional_sample(ROWS, OBS), r"in training mode.*call policy\.eval\(\)"),
    "noise": (lambda: mine().conditional_sample(ROWS, OBS, noise=OBS), r"noise must have shape \(3, 8, 2\), not"),
    "number": (lambda: mine().conditional_sample(0, OBS), "batch_size must be at least 1"),
    "one axis": (
        lambda: mine().conditional_sample(1, OBS[0]),
        r"global_cond must have a row for each observation, not shape \(6,\): .*global_cond\[None\]",
    ),
    "one number": (lambda: mine().conditional_sample(1, OBS[0, :1]), r"global_cond must have a row .*not shape \(1,\)"),
    "ddim": (lambda: mine(DDIM()).conditional_sample(ROWS, OBS), "no step of DDIMScheduler is random here.*DDPM"),
    "no policy": (lambda: da.adapters.policy(object()), "object is not a diffusion policy that drawahead can read"),
    "pi0": (
        lambda: da.adapters.policy(tiny.Flow()),
        "Flow is not a .*Flow matching policies .*none can be drawn ahead",
    ),
    "flow objective": (lambda: da.adapters.accelerate(tiny.FlowObjective()), "Flow matching policies have none"),
    "flow scheduler": (
        lambda: mine(diffusers.FlowMatchEulerDiscreteScheduler(tiny.STEPS)).conditional_sample(ROWS, OBS),
        "no step of FlowMatch.* is random here, .*for flow matching use .* stochastic_sampling=True",
    ),
    "deadline": (
        lambda: da.adapters.accelerate(tiny.LeRobotModel(), deadline_ms=0),
        "deadline_ms must be a number above 0",
    ),
    "no drafts": (
        lambda: da.adapters.accelerate(tiny.LeRobotModel(), sampler=Sequential(), deadline_ms=9),
        r"needs a sampler that always has drafts, such as Coupled\(\), not Sequential\(\)",
    ),
    "sampler": (lambda: da.adapters.accelerate(tiny.LeRobotModel(), sampler="fast"), "there is no sampler .fast."),
    "mask": (
        lambda: da.adapters.policy(tiny.UnetPolicy().eval()).conditional_sample(inpainted()[0], inpainted()[0]),
        "condition_mask must be a mask of the shape of condition_data",
    ),
    "known": (
        lambda: da.adapters.policy(tiny.UnetPolicy().eval()).conditional_sample(
            inpainted()[0] * torch.nan, inpainted()[1]
        ),
        r"condition_data\[0\] is not finite",
    ),
    "hurry": (lambda: da.sample(da.targets.DenseLogistic(4), hurry=After(0)), "hurry needs a sampler that drafts"),
    "recursive": (
        lambda: da.sample(da.targets.DenseLogistic(4), sampler=Recursive(), hurry=After(0)),
        "hurry needs a sampler that drafts",
    ),
}


def mine(noise_scheduler: Any = None, *, train: bool = False) -> Any:
    return da.adapters.policy(tiny.LeRobotModel(noise_scheduler).train(train))


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_named_and_gives_no_action(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        call()


def test_an_observation_that_the_network_cannot_take() -> None:
    with pytest.raises(SamplingError, match="round 1"):
        mine().conditional_sample(ROWS, OBS[:, :2])


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_an_answer_that_is_not_finite_gives_no_action(bad: float, graphs: bool) -> None:
    """Though clipping would make it a finite one; and no report of an earlier call is left."""
    policy = tiny.LeRobotModel(tiny.scheduler(clip_sample=True)).eval()
    with da.adapters.accelerate(policy, sampler=Coupled(8), graphs=graphs) as fast:
        policy.conditional_sample(ROWS, OBS)
        assert fast.report is not None and fast.chain is not None
        policy.unet.forward = lambda x, t, global_cond: torch.where(t[:, None, None] > 9, x, bad)
        with pytest.raises(SamplingError, match="not finite"):
            policy.conditional_sample(ROWS, OBS)
        assert fast.report is None
        with pytest.raises(InputError):
            policy.conditional_sample(ROWS, nan())
        assert fast.report is None and fast.chain is None


@pytest.mark.parametrize("known", [False, True], ids=["first call", "later call"])
def test_a_lost_device_is_said_at_once(known: bool) -> None:
    """No action, no report, and one line that says what to do."""
    policy = tiny.LeRobotModel().eval()
    with da.adapters.accelerate(policy, sampler=Coupled(8)) as fast:
        if known:
            policy.conditional_sample(ROWS, OBS)

        def lost(*_: Any, **__: Any) -> Tensor:
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nmore")

        policy.unet.forward = lost
        with pytest.raises(SamplingError, match=r"^the device failed.*no action.*\(CUDA error: an illegal[^\n]*\)$"):
            policy.conditional_sample(ROWS, OBS)
        assert fast.report is None and fast.chain is None


def test_runners_are_closed_with_their_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a network that was replaced, too."""
    closed: list[da.Runner] = []
    monkeypatch.setattr(da.Runner, "close", lambda runner: closed.append(runner))
    policy = tiny.LeRobotModel().eval()
    with da.adapters.accelerate(policy, sampler=Coupled(8)):
        for rows in (1, 2, 2):
            policy.conditional_sample(rows, OBS[:rows])
        assert not closed
        policy.unet = tiny.Network().eval()
        policy.conditional_sample(1, OBS[:1])
        assert len(closed) == 2
    assert len(closed) == 3


def test_what_fails_after_drawing_leaves_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    policy = tiny.LeRobotModel().eval()
    with da.adapters.accelerate(policy, sampler=Coupled(8)) as fast:
        monkeypatch.setattr(da.Runner, "warm_up", full)
        with pytest.raises(torch.OutOfMemoryError):
            policy.conditional_sample(ROWS, OBS)
        assert fast.report is None and fast.chain is None and not fast.latency.calls


def test_actions_that_overflow_their_dtype_are_not_returned() -> None:
    policy = tiny.LeRobotModel(tiny.scheduler(clip_sample=False, prediction_type="sample")).half().eval()
    policy.unet.forward = lambda x, t, global_cond: torch.full_like(x, 6e4, dtype=torch.float32) * 3
    with da.adapters.accelerate(policy, sampler=Coupled(8)) as fast:
        with pytest.raises(SamplingError, match=r"actions are not finite in torch\.float16"):
            policy.conditional_sample(ROWS, OBS.half())
        assert fast.report is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_policies_of_every_precision(dtype: torch.dtype) -> None:
    """They draw in it, from the noise that they have in float64, up to their rounding."""

    def drawn(precision: torch.dtype, sampler: da.Sampler) -> Tensor:
        twin = da.adapters.policy(tiny.LeRobotModel().to(precision).eval(), sampler=sampler, seed=SEED)
        actions: Tensor = twin.conditional_sample(ROWS, OBS.to(precision))
        assert actions.dtype == precision and twin.drawahead.report.exact
        return actions.double()

    drawn(dtype, Coupled(8))
    allowed = 1e-4 if dtype == torch.float32 else 0.2
    torch.testing.assert_close(drawn(dtype, Sequential()), drawn(torch.float64, Sequential()), rtol=0.0, atol=allowed)


def test_ddim_with_noise_is_drawn() -> None:
    policy = tiny.UnetPolicy(DDIM()).eval()
    policy.kwargs = {"eta": 1.0}
    with da.adapters.accelerate(policy, sampler=Coupled(8)) as fast:
        policy.predict_action({"obs": seen()})
    assert fast.report is not None and fast.report.exact and fast.report.rounds < tiny.STEPS


def test_a_network_is_compiled_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = []
    monkeypatch.setattr(torch, "compile", lambda function: wrapped.append(function) or function)
    policy = tiny.LeRobotModel().eval()
    drawn = []
    for compiled in (False, True):
        with da.adapters.accelerate(policy, sampler=Coupled(window=9), seed=SEED, compile=compiled):
            drawn.append([policy.conditional_sample(ROWS, global_cond=OBS) for _ in range(2)])
    assert len(wrapped) == 1
    assert all(torch.equal(*pair) for pair in zip(*drawn, strict=True))
