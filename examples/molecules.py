"""Shapes of n-pentane from a small equivariant diffusion network, drawn ahead with the centre of mass held at zero.

    python examples/molecules.py                                            # half a minute on a CPU
    python examples/molecules.py --seconds 45 --device cuda --save w.pt     # train it anew, as its weights were

Five carbon atoms have two dihedral angles, each trans or gauche (+ or -), and gauche + beside gauche - is crowded. The
data follow Flory's rotational isomeric states, so their law is known. What drawahead promises is the law of the
network's own steps, taken one at a time; how close that comes to the data is up to the network.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import drawahead as da

ATOMS, STEPS = 5, 250
STATES = {"t": 180.0, "g+": 60.0, "g-": -60.0}  # degrees
GAUCHE, CROWDED = 0.43, 0.05  # their weights at room temperature, beside trans and beside any other pair
PAIRS = [*itertools.product(STATES, STATES)]
WEIGHTS = torch.tensor(
    [GAUCHE ** (one != "t") * GAUCHE ** (two != "t") * CROWDED ** ({one, two} == {"g+", "g-"}) for one, two in PAIRS]
)


def conformers(number: int, generator: torch.Generator) -> Tensor:
    """Coordinates (number, 5, 3) in units of a bond, centred and turned at random."""

    def near(middle: Tensor | float, spread: float) -> Tensor:
        return middle + spread * torch.randn(number, generator=generator)

    pairs = torch.multinomial(WEIGHTS, number, replacement=True, generator=generator)
    states = torch.tensor([[STATES[one], STATES[two]] for one, two in PAIRS])[pairs]
    x = [torch.zeros(number, 3)]
    x.append(x[0] + torch.tensor([1.0, 0.0, 0.0]) * near(1.0, 0.02)[:, None])
    for i in range(2, ATOMS):
        angle = near(math.radians(112), math.radians(3))
        turn = near(states[:, i - 3].deg2rad(), math.radians(10)) if i > 2 else torch.zeros(number)
        along = nn.functional.normalize(x[-1] - x[-2], dim=1)
        back = x[-2] - x[-3] if i > 2 else torch.tensor([0.0, -1.0, 0.0]).expand(number, 3)
        normal = nn.functional.normalize(torch.linalg.cross(back, along), dim=1)
        frame = torch.stack([along, torch.linalg.cross(normal, along), normal], dim=1)  # (number, 3, 3)
        step = torch.stack([-angle.cos(), angle.sin() * turn.cos(), angle.sin() * turn.sin()], dim=1)
        x.append(x[-1] + near(1.0, 0.02)[:, None] * torch.einsum("ni,nij->nj", step, frame))
    rotations, _ = torch.linalg.qr(torch.randn(number, 3, 3, generator=generator))
    return centred(torch.stack(x, dim=1)) @ rotations


def centred(x: Tensor) -> Tensor:
    """Molecules (m, atoms, 3) with their centre of mass at zero: the projection that the chain is given."""
    return x - x.mean(dim=1, keepdim=True)


def dihedrals(x: Tensor) -> Tensor:
    """Both angles (m, 2), in degrees."""
    bonds = x[:, 1:] - x[:, :-1]
    normals = torch.linalg.cross(bonds[:, :-1], bonds[:, 1:])
    across = torch.linalg.cross(normals[:, :-1], nn.functional.normalize(bonds[:, 1:-1], dim=2))
    cosine, sine = (normals[:, :-1] * normals[:, 1:]).sum(2), -(across * normals[:, 1:]).sum(2)
    return torch.atan2(sine, cosine).rad2deg()


def shares(x: Tensor) -> Tensor:
    """How many of the molecules are nearest to each pair of states (9,), in parts of all."""
    off = dihedrals(x)[:, :, None] - torch.tensor([*STATES.values()])
    nearest = ((off + 180) % 360 - 180).abs().argmin(2)
    return torch.bincount(nearest @ torch.tensor([3, 1]), minlength=9) / len(x)


class Equivariant(nn.Module):
    """An E(n)-equivariant graph network (Satorras et al. 2021) on all pairs of atoms: (x, t) -> the noise in x."""

    def __init__(self, schedule: da.DDPM, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        plan = schedule.plan()
        levels = torch.stack([plan.signal, plan.noise])[:, :-1].flip(1).float()  # (2, T)
        self.register_buffer("levels", levels, persistent=False)
        self.register_buffer("centres", torch.linspace(0, 4.5, 16), persistent=False)
        self.atoms = nn.Parameter(torch.randn(ATOMS, width) / 2)
        self.time = _perceptron(2, width)
        self.edges = nn.ModuleList(_perceptron(2 * width + 32, width) for _ in range(layers))
        self.nodes = nn.ModuleList(_perceptron(2 * width, width) for _ in range(layers))
        self.pulls = nn.ModuleList(_perceptron(width, 1) for _ in range(layers))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        signal, noise = self.levels[:, t].to(x.dtype)  # (m,)
        h = self.atoms + self.time(torch.stack([noise, noise.log()], dim=1))[:, None]  # (m, atoms, width)
        moved, (_, first) = x, self.pairs(x)
        for edge, node, pull in zip(self.edges, self.nodes, self.pulls, strict=True):
            away, near = self.pairs(moved)
            sides = [h[:, :, None].expand(-1, -1, ATOMS, -1), h[:, None].expand(-1, ATOMS, -1, -1)]
            message = edge(torch.cat([*sides, near, first], dim=3))
            moved = moved + (away * pull(message)).mean(dim=2)
            h = h + node(torch.cat([h, message.mean(dim=2)], dim=2))
        return noise[:, None, None] * x + signal[:, None, None] * (moved - x) / (noise[:, None, None] + 0.1)

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Directions between atoms (m, atoms, atoms, 3), and features of their distances (m, atoms, atoms, 16)."""
        apart = x[:, :, None] - x[:, None]
        distance = (apart.square().sum(3, keepdim=True) + 1e-6).sqrt()
        return apart / distance, (-((distance - self.centres) * 3.0).square() / 2).exp()


def _perceptron(entries: int, answers: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(entries, 48), nn.SiLU(), nn.Linear(48, answers))


def trained(schedule: da.DDPM, seconds: float, device: str = "cpu", batch: int = 256) -> Equivariant:
    """A network that has seen so many seconds of conformers; its weights are averaged over the last steps."""
    torch.manual_seed(0)
    network, began = Equivariant(schedule).to(device), time.perf_counter()
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.995))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-4)
    data = conformers(100_000, torch.Generator().manual_seed(1)).to(device)
    while (progress := (time.perf_counter() - began) / seconds) < 1:
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1.0, 50 * progress) * (1 + math.cos(math.pi * progress)) / 2
        clean = data[torch.randint(len(data), (batch,), device=device)]
        eps, t = centred(torch.randn_like(clean)), torch.randint(STEPS, (batch,), device=device)
        signal, noise = network.levels[:, t, None, None]
        loss = (centred(network(signal * clean + noise * eps, t)) - eps).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(network)
    return average.module.cpu().eval().requires_grad_(False)


def loaded(schedule: da.DDPM, path: Path) -> Equivariant:
    """A network with weights that `--save` wrote."""
    network = Equivariant(schedule).eval().requires_grad_(False)
    network.load_state_dict({name: table.float() for name, table in torch.load(path, weights_only=True).items()})
    return network


def chain_of(network: nn.Module, schedule: da.DDPM) -> da.GaussianChain:
    """States, predictions and noise all have their centre of mass at zero."""
    return da.GaussianChain(da.from_epsilon(network, schedule), schedule, shape=(ATOMS, 3), project=centred)


def plot(path: Path, drawn: dict[str, Tensor]) -> None:
    """Both dihedral angles of every molecule, and a few of the molecules."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.4), layout="constrained")
    few, *scatters = figure.subplots(1, 4)
    for i, x in enumerate(drawn["drawahead"][:9]):
        flat = x @ torch.linalg.svd(x)[2].T[:, :2]  # seen from where it looks largest
        row, column = divmod(i, 3)
        few.plot(flat[:, 0] + 4.2 * column, flat[:, 1] - 2.2 * row, "o-", color="#0b6e64", linewidth=2.5, markersize=7)
    few.set(aspect="equal", title="nine of the draws")
    few.axis("off")
    for axes, (name, x) in zip(scatters, drawn.items(), strict=True):
        angles = dihedrals(x) % 360
        axes.scatter(angles[:, 0], angles[:, 1], s=4, color="#0b6e64", alpha=0.5, linewidth=0)
        ticks = [60, 180, 300]
        axes.set(title=name, xlim=(0, 360), ylim=(0, 360), aspect="equal", xticks=ticks, yticks=ticks)
        axes.set(xticklabels=["g+", "t", "g-"], yticklabels=["g+", "t", "g-"], xlabel="first dihedral")
    scatters[0].set_ylabel("second dihedral")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, help="train for so long, instead of taking the weights beside this file"
    )
    parser.add_argument("--save", type=Path, help="write the trained weights here")
    parser.add_argument("--device", default="cpu", help="for training")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("molecules.png"), help="the picture")
    arguments = parser.parse_args()
    schedule = da.DDPM(da.schedules.linear_betas(STEPS, 4e-4, 0.08))
    if arguments.seconds is None:
        network = loaded(schedule, Path(__file__).with_name("molecules.pt"))
    else:
        batch = 256 if arguments.device == "cpu" else 4096
        network = trained(schedule, arguments.seconds, arguments.device, batch)
        if arguments.save:
            torch.save({name: table.half() for name, table in network.state_dict().items()}, arguments.save)
    chain = chain_of(network, schedule)
    ahead = da.sample(chain, arguments.draws, sampler=da.Coupled(32), seed=0)
    single = da.sample(chain, arguments.draws, sampler=da.Sequential(), seed=1)
    data = conformers(arguments.draws, torch.Generator().manual_seed(2))
    drawn = {"drawahead": ahead.samples.float(), "one by one": single.samples.float(), "data": data}
    print(f"{ahead.report.mean_rounds:.1f} rounds instead of {STEPS}; centres of mass within", end=" ")
    print(f"{float(ahead.samples.mean(1).abs().max()):.0e}\n\nshares     " + "".join(f"{a + b:>7}" for a, b in PAIRS))
    rows = {"known": WEIGHTS / WEIGHTS.sum()} | {name: shares(x) for name, x in drawn.items()}
    for name, parts in rows.items():
        print(f"{name:11}" + "".join(f"{float(part):7.3f}" for part in parts))
    plot(arguments.out, drawn)
    print(f"\nwrote {arguments.out}")


if __name__ == "__main__":
    main()
