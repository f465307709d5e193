"""What the RTK page says that no measurement can change: the mathematics, the interface, how things are measured."""

from __future__ import annotations

WHAT = """\
A diffusion model knows the scores grad log p_t of noised data, X_t = exp(-t) X_0 + sqrt(1 - exp(-2 t)) g. DDPM draws
data from noise in many small steps, each a Gaussian. **RTK** makes few long segments instead. Given the state x' at
time t + eta, the state z at time t has a law that is known up to a constant, the *reverse transition kernel*

    p(z | x') = exp(-f_t(z) - |x' - exp(-eta) z|^2 / (2 (1 - exp(-2 eta)))) / constant,    f_t = -log p_t,

and a Markov chain draws from it, with the score at the one time t. The quadratic term has curvature
1 / (exp(2 eta) - 1). If f_t is L-smooth and eta = log(1 + 1/(2 L)) / 2, that is 2 L: the kernel then has curvature
between L and 3 L whatever the data are, and Langevin chains are fast on it. Longer segments may have several modes;
whether a chain finds them all has to be measured. The framework, with ULD and (projected) MALA inside it and their
rates, is from [arXiv 2405.16387](https://arxiv.org/abs/2405.16387); everything measured on this page is our own."""

EXAMPLE = """\
```python
import math
import torch
import drawahead as da
from drawahead import rtk

angle = torch.arange(18) * (math.pi / 9)
ring = da.targets.GaussianMixture(torch.stack([angle.cos(), angle.sin()], 1), 0.007)


def uld(time, eta):  # for the segment of length eta that ends at `time`: short steps near the data
    spread = 0.007 * math.exp(-2 * time) - math.expm1(-2 * time)  # the variance of a mode by then
    curvature = 1 / spread + 1 / math.expm1(2 * eta)
    return rtk.ULD(tau=0.6 / math.sqrt(curvature), gamma=2 * math.sqrt(curvature), steps=12)


result = rtk.sample(
    ring, kernel=rtk.PerSegment(uld, steps=12), segments=rtk.Segments.even(3.0, 5), num_samples=500, seed=0
)
print(result.samples.shape, result.report)  # 60 calls of the score
```

`segments` are times that fall from T to 0: `Segments.even(T, K)`, `Segments.from_smoothness(L)` for the eta above,
`Segments.from_theory(L, d, eps)` for the number that the theorems ask for, or any `Segments(times)`. A kernel has one
step size; `PerSegment` gives every segment its own, as here. Sample i of a seed is the same whatever the batch and the
number of samples. The report counts what the oracle was really asked."""

KERNELS = """\
| kernel | calls in a segment of S steps | its law, with many steps |
| --- | --- | --- |
| `ULA(tau, S)` | S scores | off by O(tau) |
| `ULD(tau, gamma, S)` | S scores | off by what falls with tau |
| `MALA(tau, S)` | S + 1 scores, S energy differences | exact |
| `ProjectedMALA(tau, S, reach, radius)` | the same | exact on the ball of that radius |
| `HMC(tau, leaps, S)` | leaps S + 1 scores, S energy differences | exact |
| `DDPM(S)` | S scores | a Gaussian: right only for short segments |
| `ProbabilityFlow(S)` | S scores | no noise at all: only the law of z, not that given x' |
| `DPOM(tau, S, P)`, `DPUM(tau, gamma, S, P)` | P + S scores | P steps of the ODE, then S of ULA or ULD on p_t |

`ULD.from_theory(L, d, eps)`, `MALA.from_theory(...)` and `ProjectedMALA.from_theory(...)` are the theorems' settings;
each says which constant was chosen where a theorem leaves it open. The first five are kernels of their own right:
`kernel.start(potential, z, noise)` and `kernel.step(potential, state, noise)` take any smooth law by its gradient."""

LEARNED = """\
Any callable `(x, t) -> score` will do; `rtk.from_epsilon` and `rtk.from_data_prediction` convert networks that predict
something else. MALA, projected MALA and HMC need energy differences f_t(z') - f_t(z), too. A network does not know
them, but it knows their gradient: `LineIntegral(nodes)` integrates the score along the line from z to z' by
Gauss-Legendre quadrature. It costs `nodes` more states a step, in one call that is counted apart, and reports an
estimate of its error; by so much the acceptance may be off.

```python
import torch
import drawahead as da
from drawahead import rtk


def network(x, t):  # stands for a trained one: the score of N(0, 4 I)
    return -x / (1 + 3 * torch.exp(-2 * t))[:, None]


score = rtk.learned(network, energy=rtk.LineIntegral(nodes=4))
kernel = rtk.MALA(tau=0.1, steps=10)
result = rtk.sample(score, kernel=kernel, segments=rtk.Segments.even(2.0, 8), shape=(3,), num_samples=1000, seed=0)
assert isinstance(result, da.rtk.RTKResult) and result.report.energy_error < 1e-3
```"""

RING = """\
The target is a ring as in the paper: {modes} Gaussians of variance {variance}, 20 degrees apart on the unit circle.
For d > 2 (our design) the ring lies in the plane of the first two coordinates and the others are N(0, {variance}),
independent; no method can tell how the plane is turned. T = {first:g} for all methods. *Even* is the paper's choice:
DDPM in equal steps, RTK in five equal segments that end at {{0.8, 0.6, 0.4, 0.2, 0}} T, with equally many calls in
each. *Geometric* spends the same calls where the law changes: exp(2 t) - 1 + {variance} falls by the same factor in
every step, or in each of five segments. *From L* is the theorem's eta with the smoothness L of each time.

A *call* is one score or one energy difference for one sample, each the same price; a budget is used up as far as whole
steps allow. DPOM and DPUM make one step of the ODE and {corrections} corrector steps at each level; HMC leaps {leaps}
times a step; projected MALA may move by 2 (sqrt(d) + 3) noises of a step at once.

* **marginal accuracy**: 1 minus the mean, over all d coordinates, of the total variation between the samples'
  histogram (30 bins and two tails) and the exact masses of the bins.
* **total variation**: of the histogram in the plane of the ring, squares of side 0.15, from the exact masses.
* **sliced W1**: to the exact law, in the mean over 32 random directions.

All three are above 0 (below 1) for exact samples, too: the grey band is what {floors} sets of exact samples of the same
size get, two standard deviations either way: {samples}.

**Tuning.** Every method but DDPM and the ODE has a step size: c / H for Langevin steps, sqrt(2 c / H) for the others,
H the curvature of a single mode in the law that is drawn from. For each method and dimension, c is the best by marginal
accuracy on samples of another seed ({tuning}): with the fewest calls the best of {step_sizes}, with every next number
of calls the best of the one before, its half and its quarter. H is known to all of them alike, as the variance is to
the geometric steps of DDPM."""

FROM_L = """\
The energy of the ring at time 0 has curvature up to L = {largest:.0f}: in the empty middle, where hardly any sample
ever is. The theorem's segments for that L are {eta:.2g} long, {segments} of them. With the L of each time instead there
are {segments_of_each_time}: the grid *from L*. Each of them is log-concave, but the calls are shared among all. At
equal calls RTK-ULD and RTK-MALA were, by marginal accuracy, better on five even segments than there in {better} cases,
no different in {same} and worse in {worse}. Five segments are not log-concave; but the modes of a ring are close enough
for a chain to pass from one to the next."""

PARALLEL = """\
An inner step of ULD is Gaussian, so all segments together are one chain of Gaussian steps, and the samplers that draft
ahead run it: `rtk.chain(score, kernel, segments)` is a chain for `da.sample`, whose samples have exactly the law of
ULD one by one. A *round* is one batch of states that waits for the batch before. Here a segment always covers the same
time of the dynamics, so that more steps are shorter ones; means over {samples} samples with standard errors. (Gaussian:
variances from 0.1 to 1. The data also hold rounds with drafts that know the variance.)

```python
import drawahead as da
from drawahead import rtk

target = da.targets.GaussianMixture.random(8)
kernel = rtk.ULD(tau=0.05, gamma=4.0, steps=64)
chain = rtk.chain(target, kernel, rtk.Segments.even(3.0, 5))
print(da.sample(chain, 4, sampler=da.Coupled(), seed=0).report)  # a few rounds instead of 320
```"""

SCALING = """\
The target is N(0, I/2) in d dimensions, L = 2; the error is the total variation of what is drawn. All laws here are
round, so that is the total variation of the length, and for DDPM and ULD, whose output is Gaussian, it is worked out
exactly from the coefficients of their steps: no samples are drawn. MALA is simulated by lengths and compared in
12 bins of equal mass, with {number} chains or, for small eps, so many that exact samples would seem to be off by a
quarter of eps. Each point is the fewest calls over all settings tried: for DDPM the number of even steps and T; for
RTK the theorem's eta, any number of segments, and one step size for all (gamma = 2 sqrt(3 L))."""

AFTER_LOOKING = """\
* T = {first:g}: a shorter one leaves an error, a longer one wastes even steps. What the methods start from is within
  {truncation:.2g} of p_T in total variation, for all d here.
* That DDPM is measured with geometric steps at all was decided after looking at even ones: they are what the paper
  compares with, and a bad choice for a narrow target.
* Budgets, sizes of bins and the grid of step sizes were chosen after a first look at d = 2, by eye.
* How step sizes are tuned was changed twice: the grid had ended too early for ULD, and a search that stopped early had
  been misled by noise. The samples that are shown have always been of another seed."""
