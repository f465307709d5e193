"""Watch a policy: one episode as it is drawn one by one and by drawahead, on the same clock, and a page about a chunk.

python training/watch.py record --policy out/push.safetensors --packages carry/metaworld --out out/watch.npz
python training/watch.py draw --episode out/watch.npz --out out/watch.gif

What is recorded is small: it can be drawn on another machine (needs matplotlib). A frame is one round, or one action.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from policy import HISTORY, HORIZON, STEPS, TAKEN, Policy
from tasks import Episode, World
from torch import Tensor

import drawahead as da
from drawahead.show import plots
from drawahead.show.painting import animated
from drawahead.show.pictures import Bitmap, Pixels
from drawahead.show.views import VectorView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = npt.NDArray[Any]
_METRES = 0.01  # that the hand goes for an action of 1
_REGION = (-0.28, 0.28, 0.48, 0.96)  # of the table, seen from above


@dataclass(frozen=True)
class Recorded:
    """An episode. Its chunks are numbered from 0; the hand takes TAKEN actions of each, or fewer of the last."""

    seen: Numbers  # (actions + 1, entries): what the policy saw before each action, and at the end
    chunk: Numbers  # (rounds,): the chunk that each round belongs to
    committed: Numbers  # (rounds,): steps of its hundred that are committed after the round
    guess: Numbers  # (rounds, HORIZON, entries): the chunk that the network expects from there
    success: Numbers  # ()

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @staticmethod
    def load(path: Path) -> Recorded:
        with np.load(path) as held:
            return Recorded(**{field.name: held[field.name] for field in fields(Recorded)})


def chain_of(policy: Policy, told: Tensor, record: range = range(0)) -> da.GaussianChain:
    """The chain that draws a chunk for each row of what the network is told."""
    return da.adapters.from_diffusers(
        policy.unet,
        policy.noise_scheduler,
        num_inference_steps=STEPS,
        condition={"global_cond": told},
        shape=(HORIZON, policy.action_dim),
        record=tuple(record),
        device=told.device,
    )


@torch.no_grad()
def chunk_by_round(policy: Policy, told: Tensor, seed: int) -> tuple[Numbers, list[int], Numbers]:
    """One chunk. -> it, the steps committed after each round, and what the network expects from there."""
    chain = chain_of(policy, told, range(1, STEPS))
    drawn = da.sample(chain, 1, sampler=da.Coupled(window=STEPS - 1), seed=seed)
    states = drawn.samples[0].to(told.device)  # after each step
    committed = list(drawn.report.progress[0][1:])
    at = torch.tensor([step for step in committed if 0 < step < STEPS], device=told.device)
    expected = chain.denoiser(states[at - 1], at, global_cond=told.expand(len(at), -1))
    shown = [*chain.moves.adjust(torch.as_tensor(expected).flatten(1)).view(len(at), *chain.shape), states[-1]]
    early = len(committed) - len(shown)  # rounds that committed nothing yet
    guesses = torch.stack([shown[0]] * early + shown).to(policy.done.low)
    return policy.done.grow(states[-1].to(guesses)).cpu().numpy(), committed, policy.done.grow(guesses).cpu().numpy()


def recorded(policy: Policy, world: World, seed: int, device: torch.device) -> Recorded:
    """The episode of this seed, with every round of its chunks."""
    episode = Episode(world, seed)
    seen, calls = [episode.seen], []
    while not episode.over:
        history = torch.tensor(np.array([seen[max(0, len(seen) - back)] for back in range(HISTORY, 0, -1)]))
        told = policy.seen.shrink(history.to(device)).flatten()[None]
        chunk, committed, guesses = chunk_by_round(policy, told, seed * 1000 + len(calls))
        calls.append((committed, guesses))
        for action in chunk[HISTORY - 1 : HISTORY - 1 + TAKEN]:
            if not episode.over:
                episode.act(action)
                seen.append(episode.seen)
    return Recorded(
        np.array(seen),
        np.repeat(np.arange(len(calls)), [len(committed) for committed, _ in calls]),
        np.concatenate([committed for committed, _ in calls]),
        np.concatenate([guesses for _, guesses in calls]),
        np.array(episode.success),
    )


@dataclass(frozen=True)
class Moment:
    """What is seen of one side at one time."""

    at: int  # actions taken
    steps: int  # committed of the chunk being drawn; STEPS while the hand moves
    guess: Numbers | None  # the chunk as far as it is known (HORIZON, entries)
    passes: int  # rounds so far


def moments(episode: Recorded, one_by_one: bool) -> Iterator[Moment]:
    """The whole episode, a round or an action at a time. One by one, a chunk takes as many rounds as steps."""
    actions, passes = len(episode.seen) - 1, 0
    for chunk in range(episode.chunk.max() + 1):
        begin, mine = chunk * TAKEN, episode.chunk == chunk
        committed, guesses = episode.committed[mine], episode.guess[mine]
        for steps in range(1, STEPS + 1) if one_by_one else committed:
            passes += 1
            known = np.flatnonzero(committed <= steps)
            yield Moment(begin, int(steps), guesses[known[-1]] if len(known) and steps else None, passes)
        for taken in range(begin + 1, min(begin + TAKEN, actions) + 1):
            yield Moment(taken, STEPS, guesses[-1], passes)


def draw(episode: Recorded, path: Path, *, hold: int = 12, milliseconds: int = 80) -> None:
    """The animation: both sides until drawahead's episode is over."""
    plots.check()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    fast = list(moments(episode, one_by_one=False))
    slow = [moment for moment, _ in zip(moments(episode, one_by_one=True), fast, strict=False)]
    images = []
    for left, right in zip([*slow, *[slow[-1]] * hold], [*fast, *[fast[-1]] * hold], strict=True):
        figure = Figure(figsize=(6.4, 3.5), dpi=100)
        canvas = FigureCanvasAgg(figure)
        sides = ((left, "one by one", "sequential"), (right, "drawahead", "coupled"))
        for place, (moment, name, sampler) in enumerate(sides):
            _table(figure.add_axes((0.02 + 0.5 * place, 0.16, 0.46, 0.76)), episode, moment, name, sampler)
            _steps(figure.add_axes((0.02 + 0.5 * place, 0.06, 0.46, 0.045)), moment, sampler)
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(animated(images, milliseconds, 64))


def _table(axes: Axes, episode: Recorded, moment: Moment, name: str, sampler: str) -> None:
    """The table from above: the hand, where it was, where the chunk would take it, the puck and its goal."""
    colour, _ = plots.style(sampler)
    seen = episode.seen[: moment.at + 1]
    hand, puck, goal = seen[-1, :2], seen[-1, 4:6], seen[-1, 7:9]
    axes.set(xlim=_REGION[:2], ylim=_REGION[2:], xticks=[], yticks=[], aspect="equal", facecolor="#f7f4ee")
    axes.add_patch(_circle(goal, 0.05, facecolor="none", edgecolor="#777777", linestyle=(0, (3, 2)), linewidth=1.2))
    axes.add_patch(_circle(puck, 0.02, facecolor="#D55E00", edgecolor="none"))
    axes.plot(seen[:, 0], seen[:, 1], color="#aaaaaa", linewidth=1.2)
    if moment.guess is not None:
        begin = episode.seen[
            moment.at - (moment.at - 1) % TAKEN - 1 if moment.steps == STEPS and moment.at else moment.at
        ]
        path = np.cumsum(np.vstack([begin[:2], _METRES * np.clip(moment.guess[HISTORY - 1 :, :2], -1, 1)]), axis=0)
        done = moment.steps == STEPS
        axes.plot(
            *path.T, color=colour, linewidth=2.2 if done else 1.2, alpha=1.0 if done else 0.7, marker=".", markersize=3
        )
    axes.add_patch(_circle(hand, 0.012, facecolor="#222222", edgecolor="white", linewidth=1.0, zorder=5))
    over = moment.at == len(episode.seen) - 1
    end = " · done" if over and episode.success else " · time is up" if over else ""
    axes.set_title(f"{name}: {moment.at} actions, {moment.passes} rounds{end}", fontsize=9, loc="left")


def _circle(at: Numbers, radius: float, **look: Any) -> Any:
    from matplotlib.patches import Circle

    return Circle((float(at[0]), float(at[1])), radius, **look)


def _steps(axes: Axes, moment: Moment, sampler: str) -> None:
    """How many of the chunk's steps are committed."""
    colour, _ = plots.style(sampler)
    axes.set(xlim=(0, STEPS), ylim=(0, 1), xticks=[], yticks=[])
    axes.barh(0.5, moment.steps, height=1.0, color=colour)
    axes.set_xlabel(f"{moment.steps} of {STEPS} steps of this chunk", fontsize=8, labelpad=2)


@dataclass(frozen=True)
class Chunks(VectorView):
    """Chunks as the way of the hand, from above: blue at its beginning, orange at its end."""

    policy: Policy
    shown = 12

    def picture(self, sample: Tensor) -> Bitmap:
        return Bitmap(self.pixels(sample[None], 96)[0])

    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        actions = self.policy.done.grow(values.to(self.policy.done.low)).clamp(-1, 1)[..., :2].cpu()
        way = torch.cat([torch.zeros(len(actions), 1, 2), actions.cumsum(1)], dim=1).div(HORIZON - 4).clamp(-1, 1)
        fine = torch.nn.functional.interpolate(way.transpose(1, 2), size=8 * side, mode="linear", align_corners=True)
        share = torch.linspace(0, 1, 8 * side)[:, None]
        ink = (1 - share) * torch.tensor([0.0, 92, 158]) + share * torch.tensor([214.0, 94, 0])
        at = ((fine + 1) / 2 * (side - 1)).round().long()  # (number, 2, dots)
        pictures = torch.full((len(values), side, side, 3), 244, dtype=torch.uint8)
        for picture, (x, y) in zip(pictures, at, strict=True):
            picture[side - 1 - y, x] = ink.to(torch.uint8)
        return list(pictures.numpy())


def page(policy: Policy, world: World, seed: int, device: torch.device, path: Path, number: int = 8) -> None:
    """The report page of chunks for the first observation of an episode: several, as the policy may go either way."""
    first = torch.tensor(Episode(world, seed).seen, device=device).expand(number, HISTORY, -1)
    chain = chain_of(policy, policy.seen.shrink(first).flatten(1))
    drawn = da.sample(chain, number, sampler=da.Coupled(window=STEPS - 1), seed=seed)
    view = Chunks(policy)
    da.show.page(chain, drawn, path, title="Action chunks of a policy that pushes a puck", view=view)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help="play an episode")
    one.add_argument("--policy", type=Path, default=Path("out/push.safetensors"))
    one.add_argument("--packages", type=Path, default=Path("carry/metaworld"))
    one.add_argument("--task", default="push-v3")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--device", default="cuda")
    one.add_argument("--out", type=Path, default=Path("out/watch.npz"))
    one.add_argument("--page", type=Path, help="also a page about the first chunk, in HTML")
    two = commands.add_parser("draw", help="draw the animation")
    two.add_argument("--episode", type=Path, default=Path("out/watch.npz"))
    two.add_argument("--out", type=Path, default=Path("out/watch.gif"))
    options = parser.parse_args()
    if options.command == "draw":
        draw(Recorded.load(options.episode), options.out)
        print(f"{options.out.stat().st_size / 1e6:.1f} MB: {options.out}")
        return
    sys.path.append(str(options.packages))
    device = torch.device(options.device)
    policy, world = Policy.load(options.policy, device), World(options.task)
    episode = recorded(policy, world, options.seed, device)
    episode.save(options.out)
    calls = episode.chunk.max() + 1
    print(
        f"success: {bool(episode.success)}; {len(episode.seen) - 1} actions, {calls} chunks of "
        f"{len(episode.chunk) / calls:.1f} rounds: {options.out}"
    )
    if options.page:
        page(policy, world, options.seed, device, options.page)


if __name__ == "__main__":
    main()
