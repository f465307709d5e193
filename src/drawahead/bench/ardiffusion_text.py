"""The words of the page of auto-regressive diffusion that do not depend on the data."""

from __future__ import annotations

WHAT = """\
Data are cut into K parts, x = (x_1, ..., x_K). An *encoder* turns the parts that are finished into a condition, and a
*conditional diffusion* draws the next part given it. So the model learns K conditional laws of small dimension instead
of one joint law. With K = 1 nothing is left to condition on: ordinary diffusion, sample for sample.

Drawn one part after another this takes K times as many dependent steps as one diffusion. But it is one chain of K R
Gaussian steps, so the samplers of drawahead run it, later parts under way while earlier ones are not yet finished, with
the law unchanged."""

EXAMPLE = """\
```python
import torch
import drawahead as da
from drawahead import ardiffusion as ar

x1 = torch.randn(4000, 2)
data = torch.cat([x1, -x1 + 0.1 * torch.randn(4000, 2)], dim=1)  # the second half mirrors the first

config = ar.Config(ar.Parts((4,), (2,)), ar.TransformerEncoder(width=16, layers=1, heads=2), ar.MLPDenoiser(32, 2))
trained = ar.train(config, data, training=ar.Training(steps=200, batch=64), out="mirror")  # goes on, if stopped

model = ar.load("mirror")
result = ar.sample(model, 8, sampler=da.Coupled(), seed=0)  # (8, 4): two parts, 64 steps each
print(result.report)

chain = ar.chain(model, da.OUExponential.even(32))  # the same with other steps, for da.sample
samples = model.parts.join(da.sample(chain, 8, sampler=da.Block(), seed=0).samples)

langevin = ar.RTK(da.rtk.ULD(tau=0.2, gamma=2.0, steps=8), da.rtk.Segments.even(4.0, 6, last=0.01))
samples = ar.sample(model, 8, inner=langevin, sampler=da.Coupled(), seed=0).samples
```"""

PIECES = """\
* `Parts(shape, grid)` cuts vectors, images into patches or rows (`Parts.rows`), or nothing (`Parts.undivided`).
* `Config` holds the encoder (`TransformerEncoder`, `MLPEncoder` or None) and the denoiser (`MLPDenoiser`,
  `TransformerDenoiser`), and becomes JSON. Networks predict velocities. Data should be centred, of about unit size.
* `train` teaches all K parts at once, each at a noise level of its own and given the clean parts before it. Its folder
  holds safetensors and JSON, each file replaced in one piece; a training that was stopped goes on from there and ends
  the same, to the last bit. Randomness is addressed by the step. The model is the moving average of the weights.
* `chain(model, inner)` is a `StackedChain`. `inner` is any schedule (`OUExponential`, `DDPM`, ...), or `RTK`:
  underdamped Langevin steps inside segments. `sample` draws from it and joins the parts. A schedule whose last step has
  no noise, such as DDPM's, makes windows end with every part; the default, `OUExponential` with 64 steps, does not.
* `GaussianParts` answers exactly for a Gaussian in parts, and `law(chain)` works out what such a chain draws. Tests
  compare every sampler with a second derivation of that law, and with broken inference that they must reject."""

SHAPES = """\
Experiments of our own design. An image shows, in each of 2 x 2 patches, a disc at a height h and a bar of height g; the
rule is g = h. *Within*: each bar follows the disc of its own patch. *Across*: that of the patch opposite. Shapes and
the number of relations are the same, only where they lie differs. The auto-regressive model has the patches for parts.
The *joint transformer* denoises all four patches at once, as tokens that attend to each other. The *joint, dense* one
is the code of the auto-regressive model with K = 1. All have about as many parameters, and a training step denoises as
many patches ({batch} images for the first two; {dense} for the dense one, which denoises an image in one go).

Heights are read off the drawn images ({steps} steps a part); the *relation error* is the root mean square of g - h over
{drawn} images, mean and standard error over {seeds} seeds. Read off the data themselves it is {real:.3f}; were g and h
independent it would be {unrelated:.3f}. *Broken* counts errors above 0.1. *Bound* is half the integral of the squared
error of predictions over the signal-to-noise ratio, on new images: up to a constant that all models share it bounds
minus the log-likelihood. So it may be compared; training losses may not, since an auto-regressive model is given other
problems to solve than a joint one. *Distance* is the largest Kolmogorov distance of h or g from the uniform law."""

TOY = """\
x1 ~ N(0, 1) and x2 = x1 + N(0, e^2): the smaller e, the worse conditioned the joint law. With *exact* answers the laws
of both chains are known. KL is of the truth from what is drawn, *spread* the standard deviation of x2 - x1 in units of
e, in closed form and from {draws} draws. Calls are of the oracle: R for each of two parts, or 2 R for the joint chain.
*Trained* are dense networks ({sizes} parameters), {steps} steps each, that denoise as many rows a step; means over
{seeds} seeds."""

LEMMA = """\
A lemma of Huang et al. says that for any eps and M there are Gaussian laws p and q of (x, y) with KL(p, q) <= eps and
KL(y given x) > M^2 x^2. Ours: x ~ N(0, eps / (2 M^2)) under both; y = M x + N(0, 1) under p and y = -M x + N(0, 1)
under q. The dependence has the *wrong sign*, and the joint KL hardly shows it. What the lemma does not say: by the
chain rule the conditional KL is at most eps on average over x. It is large at x far larger than they usually are."""

BOUND = """\
Huang et al. (*Capturing conditional dependence via auto-regressive diffusion models*, 2025) bound the error of K parts,
each drawn by R steps of length eta, T = R eta:

    KL <~ 2 exp(-2 T) L (m + d)  +  (L^2 R eta^2 + T eta) d + eta m  +  eta K R eps^2

(truncation, discretisation, score error; L bounds the curvature of log p, m = E|x|^2, eps^2 is the squared error of the
score of a part, averaged over parts.) Here the data are Gaussian and the score is wrong by a constant vector:
everything is linear, and KL(data, drawn) is exact. The *path KL* is that of the whole reverse diffusion from the one
whose score is held fixed on each step. Proofs go through it, so it should scale as the bound does; the KL of what is
drawn at the end may be far smaller. Exponents are slopes of log-log fits (for truncation, of log KL against T) with the
standard error of the fit; ratios are at the last point of each panel. The bound is stated up to constants: none was
fitted."""

ROUNDS = """\
Rounds and queries a sample, on a Gaussian in K parts of {size} entries, neighbouring ones correlated by 0.9 (*strong*)
or independent (*none*); {samples} samples. One by one it takes 64 K rounds and as many queries. `Coupled` refines the
steps of later parts while earlier ones are not yet finished: the less parts depend on each other, the fewer rounds.
`Stepwise` and `Block` draft a step from an answer about the part before, and such drafts seldom survive. (ULD without
dependence is a trivial case: its kernel starts in its own law.)"""

TIMED = """\
One image of a trained model (16 x 16 pixels in 4 or 16 patches, the rule is *across*), measured {machine}, all in one
run: medians over {repeats} seeds after a warm-up, one image at a time, no rounds captured as graphs."""

AGREED = """\
Two-sample tests on the model with {number} parts, {compared} images by each sampler against as many drawn one by one:
the smallest of {tests} p-values is {smallest:.2g}. (Kolmogorov-Smirnov on coordinates, random directions and the
radius; a distance of 0.2 in one of them would show at a level of 1e-6.)"""

CHOICES = """\
* The shapes and both pairings were fixed first. Sizes and budgets come from one trial at 400 and 4000 steps, seed 0,
  whose outcome had the same signs. The dense joint model proved weak at this size in that trial, within parts as well;
  the joint transformer, the like-for-like rival, was there from the start. No learning rate was tuned for any model.
* Noise levels are weighted alike for all models. Other weightings, or longer training, may move every number here.
* Toys that are linear suit `Coupled`: its drafts, which follow a secant, are nearly perfect there."""
