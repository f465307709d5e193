"""Training and judging a robot policy, on a table without physics: the hand goes where it is told."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

pytest.importorskip("diffusers")
TRAINING = Path(__file__).parents[2] / "training"
SCRIPTS = ("common", "policy", "tasks", "rollouts", "watch")


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, Any]]:
    """The scripts of training/, which import one another by their bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TRAINING))
        yield {name: importlib.import_module(name) for name in SCRIPTS}
        for name in SCRIPTS:
            sys.modules.pop(name, None)


class Table:
    """Stands in for Meta-World: an episode succeeds where the hand gets to a goal on its left or right in time."""

    def __init__(self) -> None:
        self.env, self.hand, self.goal = self, np.zeros(4), np.zeros(3)

    def seed(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def reset(self) -> tuple[np.ndarray, dict]:
        self.hand, self.goal = np.zeros(4), self.random.uniform(-1, 1, 3)
        return self.shown(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.hand = self.hand + 0.1 * action
        return self.shown(), 0.0, False, False, {"success": float(abs(self.hand[0] - self.goal[0]) < 0.1)}

    def shown(self) -> np.ndarray:
        return np.concatenate([self.hand, np.zeros(32), self.goal])


@pytest.fixture(scope="module")
def trained(scripts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few steps of training on a few walks to goals."""
    folder = tmp_path_factory.mktemp("policy")
    seen, done = [], []
    for seed in range(8):
        episode = scripts["tasks"].Episode(Table(), seed)
        for _ in range(20):
            seen.append(episode.seen)
            done.append(np.append(np.clip(5 * (episode.full[-3:] - episode.full[:3]), -1, 1), 0).astype(np.float32))
            episode.act(done[-1])
    np.savez(folder / "walks.npz", seen=np.stack(seen), done=np.stack(done), lengths=np.full(8, 20))
    words = (
        f"--data {folder}/walks.npz --out {folder}/walks.safetensors --widths 8 16 --steps 30 --batch 32 --device cpu"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["policy.py", *words.split()])
        scripts["policy"].main()
    return folder / "walks.safetensors"


def test_a_policy_is_read_back_as_it_was_saved(scripts: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    policy = scripts["policy"].Policy.load(trained, "cpu")
    policy.save(tmp_path / "again.safetensors", torch.zeros(2, 20), {})
    again = scripts["policy"].Policy.load(tmp_path / "again.safetensors", "cpu")
    history = torch.rand(3, 2, 10)
    drawn = [each.predict_action(history, torch.Generator().manual_seed(1)) for each in (policy, again)]
    assert drawn[0].shape == (3, 8, 4) and torch.equal(*drawn)


def test_windows_end_where_episodes_do(scripts: dict[str, Any]) -> None:
    rows = scripts["policy"].windows([3, 20])
    assert rows.shape == (23, 16)
    assert rows[0].tolist() == [0, 0, 1, *[2] * 13]
    assert rows[3].tolist() == [3, 3, *range(4, 18)] and rows[22, 0] == 21


@pytest.mark.parametrize("name", ["drawahead", "sequential", "ddim10"])
def test_every_method_is_judged_from_the_same_starts(scripts: dict[str, Any], trained: Path, name: str) -> None:
    scripts["tasks"].LIMIT = 16
    policy = scripts["policy"].Policy.load(trained, "cpu")
    worlds = [Table(), Table()]
    starts: list[int] = []
    for world in worlds:
        world.seed = lambda seed, world=world: (starts.append(seed), Table.seed(world, seed))
    found = scripts["rollouts"].rolled_out(policy, worlds, range(3), torch.device("cpu"), name)
    assert starts == [0, 1, 2]
    assert found["episodes"] == len(found["by_seed"]) == 3 and found["successes"] == sum(found["by_seed"])
    assert found["rounds"] == {"sequential": 100, "ddim10": 10}.get(name, found["rounds"])
    assert 1 < found["rounds"] <= 100 and 0 < found["steps"] <= 16
    assert type(policy.noise_scheduler).__name__ == "DDPMScheduler" and policy.num_inference_steps == 100
    assert "conditional_sample" not in vars(policy)


def test_intervals_are_those_of_scipy(scripts: dict[str, Any]) -> None:
    for successes in (0, 3, 187, 200):
        low, high = scripts["rollouts"].interval(successes, 200)
        wanted = scipy.stats.binomtest(successes, 200).proportion_ci(0.95, "wilson")
        assert (low, high) == pytest.approx((wanted.low, wanted.high), abs=1e-4)


def test_pairs_are_judged_by_a_coin(scripts: dict[str, Any]) -> None:
    first, second = [1] * 90 + [0] * 2 + [1] * 8, [1] * 92 + [0] * 8
    found = scripts["rollouts"].paired(first, second)
    assert (found["only_first"], found["only_second"]) == (8, 2)
    assert found["p"] == pytest.approx(scipy.stats.binomtest(2, 10).pvalue)
    assert found["difference"] == pytest.approx(0.06) and found["low"] < 0.06 < found["high"]
    alike = scripts["rollouts"].paired(first, first)
    assert alike["p"] == 1 and alike["difference"] == 0
    assert -alike["low"] == alike["high"] == pytest.approx(1.96 / 102)  # no pair differs, and doubt is left


def test_an_episode_is_watched_round_by_round(scripts: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    scripts["tasks"].LIMIT = 12
    watch, policy = scripts["watch"], scripts["policy"].Policy.load(trained, "cpu")
    table = Table()
    watch.recorded(policy, table, 1, torch.device("cpu")).save(tmp_path / "episode.npz")
    episode = watch.Recorded.load(tmp_path / "episode.npz")
    actions, chunks = len(episode.seen) - 1, episode.chunk.max() + 1
    assert chunks == -(-actions // 8) and len(episode.chunk) == len(episode.committed) == len(episode.guess)
    for chunk in range(chunks):
        committed = episode.committed[episode.chunk == chunk]
        assert committed[-1] == 100 and (np.diff(committed) >= 0).all()
        last = episode.guess[episode.chunk == chunk][-1]  # what is committed in the end is what the hand does
        hand = episode.seen[8 * chunk : 8 * chunk + 9, 0]
        assert np.allclose(np.diff(hand), 0.1 * np.clip(last[1 : len(hand), 0], -1, 1), atol=1e-5)
    slow, fast = (list(watch.moments(episode, one_by_one=each)) for each in (True, False))
    assert slow[-1].passes == 100 * chunks and fast[-1].passes == len(episode.chunk)
    assert slow[-1].at == fast[-1].at == actions
    watch.page(policy, table, 1, torch.device("cpu"), tmp_path / "page.html", number=2)
    assert "Action chunks" in (tmp_path / "page.html").read_text()


def test_an_animation_shows_every_round_and_action(scripts: dict[str, Any], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    guess = np.zeros((2, 16, 4))
    episode = scripts["watch"].Recorded(np.zeros((4, 10)), np.array([0, 0]), np.array([40, 100]), guess, np.array(True))
    scripts["watch"].draw(episode, tmp_path / "it.gif", hold=1)
    with image.open(tmp_path / "it.gif") as drawn:  # what is held may be one longer frame
        assert drawn.size == (640, 350) and drawn.n_frames in (5, 6)


def test_a_policy_and_its_few_steps_have_one_noise_schedule(scripts: dict[str, Any], trained: Path) -> None:
    policy = scripts["policy"].Policy.load(trained, "cpu")
    own = policy.noise_scheduler.alphas_cumprod
    with scripts["rollouts"].method(policy, "ddim8"):
        few = policy.noise_scheduler
        assert type(few).__name__ == "DDIMScheduler" and torch.equal(few.alphas_cumprod, own)
        few.set_timesteps(policy.num_inference_steps)
        assert len(few.timesteps) == 8 and few.timesteps[0] < 100


def test_of_a_simulators_files_those_that_are_read_are_kept(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TRAINING))
        packages = importlib.import_module("packages")
    sys.modules.pop("packages")
    for folder in ("models", "parts", "meshes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "models" / "push.xml").write_text('<a file="../parts/arm.xml"/><b file="../meshes/none.stl"/>')
    (tmp_path / "parts" / "arm.xml").write_text('<a file="hand.xml"/><mesh file="../meshes/arm.stl"/>')
    (tmp_path / "parts" / "hand.xml").write_text('<a file="arm.xml"/>')  # each names the other
    for name in ("arm.stl", "other.stl"):
        (tmp_path / "meshes" / name).touch()
    kept = packages.read_by(tmp_path / "models" / "push.xml", tmp_path / "models")
    assert {path.name for path in kept} == {"push.xml", "arm.xml", "hand.xml", "arm.stl"}
