"""An antibody's residues filled in by AntiBERTy: what docs/language.md and docs/proteins.md show, printed.

FOLDER holds the unpacked wheel of antiberty 0.1.3. Only its files of weights and words are read; nothing of it is run.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

import drawahead as da

HEAVY = (  # of trastuzumab
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYC"
    "SRWGGDGFYAMDYWGQGTLVTVSS"
)
LOOPS = [range(26, 35), range(50, 58), range(96, 109)]  # of the binding site
LOOP = set(LOOPS[2])  # SRWGGDGFYAMDY


def load(folder: Path | None, *, small: bool = False) -> tuple[BertForMaskedLM, BertTokenizer]:
    """AntiBERTy; or, where it is not there, a model of its form with random weights."""
    models = None if folder is None else folder / "antiberty" / "trained_models"
    if models is None or not models.exists():
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        whole = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 2048}
        with tempfile.TemporaryDirectory() as home:
            words = Path(home) / "vocab.txt"
            words.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"ACDEFGHIKLMNPQRSTVWY"]))
            tokenizer = BertTokenizer(str(words), do_lower_case=False)
        torch.manual_seed(0)
        return BertForMaskedLM(BertConfig(vocab_size=25, **(sizes if small else whole))), tokenizer
    model = BertForMaskedLM(BertConfig.from_pretrained(models / "AntiBERTy_md_smooth"))
    file = models / "AntiBERTy_md_smooth" / "pytorch_model.bin"
    weights = torch.load(file, map_location="cpu", weights_only=True)
    assert model.load_state_dict(weights, strict=False).missing_keys == []
    return model, BertTokenizer(str(models / "vocab.txt"), do_lower_case=False)


def options(parser: argparse.ArgumentParser) -> None:
    """Where the weights are."""
    parser.add_argument("folder", type=Path, metavar="FOLDER")


def run(arguments: argparse.Namespace) -> list[Path]:
    """Draw and print. -> nothing is written."""
    model, tokenizer = load(arguments.folder)
    lm = da.adapters.MaskedLM(model, tokenizer)
    half = set(random.Random(0).sample(range(len(HEAVY)), len(HEAVY) // 2))
    for hidden in (LOOP, half):
        prompt = " ".join("[MASK]" if i in hidden else residue for i, residue in enumerate(HEAVY))
        for sampler in (da.Sequential(), da.Block(), da.Coupled()):
            result = da.sample(lm.chain(prompt), 4, sampler=sampler, seed=0)
            print([text.replace(" ", "") for text in lm.text(result.samples)], result.report, sep="\n")
    proteins = da.adapters.ProteinLM(model, lm.tokenizer)
    chain = proteins.chain("".join("_" if any(i in loop for loop in LOOPS) else a for i, a in enumerate(HEAVY)))
    result = da.sample(chain, 4, sampler=da.Coupled(), seed=0)
    for text, log_prob in zip(proteins.sequences(result.samples), proteins.log_probs(chain, result), strict=True):
        print(*(text[loop.start : loop.stop] for loop in LOOPS), f"{log_prob:.2f}")
    print(result.report)
    return []
