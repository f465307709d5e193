"""What drawahead was measured by: every study, its data and the page it writes. `python -m studies` lists them."""

STUDIES = {
    "rounds": ("studies.rounds", "rounds and queries against the length, for every sampler (13 minutes)"),
    "diffusion": ("studies.diffusion", "rounds and queries of diffusions against steps and dimension (9 minutes)"),
    "recursive": ("studies.recursive", "how the rounds of the recursion grow, and their tail (20 minutes)"),
    "coupled": ("studies.coupled", "the figures that explain why Coupled is exact (seconds)"),
    "lower-bound": ("studies.lower_bound", "a target built to be hard, beside what no sampler can beat (3 minutes)"),
    "noise": ("studies.noise", "what the errors of an oracle do to samples and rounds (5 minutes)"),
    "gallery": ("studies.gallery", "a picture of every target that the command line knows (2 minutes)"),
    "matchings": ("studies.matchings", "rounds of domino tilings against the size of the board (4 minutes)"),
    "rtk": ("studies.rtk.study", "reverse transition kernels and DDPM against calls (17 minutes)"),
    "ardiffusion": ("studies.ardiffusion.study", "auto-regressive beside joint diffusion, and its bound (94 minutes)"),
    "speed": ("studies.speed.study", "seconds of the shipped networks, in parallel and one by one (14 minutes, a GPU)"),
    "policies": ("studies.policies", "milliseconds of a robot policy's action chunk (8 minutes, a GPU)"),
    "emoji": ("studies.emoji", "milliseconds of pictures from words, by scheduler and steps (4 minutes, a GPU)"),
    "science": (
        "studies.science",
        "a denoiser of power spectra beside its own sampler (its weights, 2 minutes, a GPU)",
    ),
    "pipelines": ("studies.pipelines.study", "pipelines of diffusers, tiny, beside their own loops (a minute)"),
    "causal": ("studies.causal.study", "left-to-right models: seconds, windows, first guesses (4 minutes, a GPU)"),
    "executors": ("studies.scale.executors", "what executors cost and survive (5 minutes, Ray)"),
    "executors-gpu": ("studies.scale.executors_gpu", "executors on a GPU, and memory that runs out (3 minutes, a GPU)"),
    "heavy": (
        "studies.scale.heavy",
        "what a pass of a heavy network costs (seconds, a GPU), and replicas simulated by it",
    ),
    "workers": ("studies.scale.workers", "whole shards on 1 to 16 workers, and a million shards (6 minutes, Ray)"),
    "jobs": ("studies.jobs", "what drawing shard by shard into a folder costs"),
    "soak": ("studies.soak", "jobs of all kinds, killed and gone on with; memory and open files (an hour)"),
    "peers": ("studies.peers", "seconds beside tools made for one kind of target (5 minutes)"),
    "compare": ("studies.compare", "rounds and distance beside what people use instead (10 minutes)"),
    "rivals": ("studies.rivals.study", "other exact and inexact samplers on their own protocols (10 minutes; a GPU)"),
    "proteins": ("studies.proteins", "passes and seconds of ProteinMPNN on structures you name (its weights)"),
    "design": (
        "studies.design_tool",
        "`drawahead design` beside ProteinMPNN's own code (its weights, a GPU for seconds)",
    ),
    "structures": ("studies.structures", "the structures that `design` is measured on (two source distributions)"),
    "antibodies": ("studies.antibodies", "an antibody's residues filled in by AntiBERTy (its weights)"),
}
"""By name: the module, and what it is about."""
