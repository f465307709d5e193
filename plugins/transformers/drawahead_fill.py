"""Masked language models of transformers: all masks of a text are drawn given each other, in parallel rounds.

Such models have no `generate`, and `fill-mask` looks at each mask by itself; so this is a pipeline, loaded from disk:

    fill = pipeline("drawahead-fill", model=MODEL, trust_remote_code=True)     # of a model whose config.json names it
    fill = pipeline("fill-mask", model=MODEL, pipeline_class=get_class_from_dynamic_module(
        "drawahead_fill.DrawaheadFillPipeline", FOLDER, trust_remote_code=True))    # of any model; FOLDER is this one
"""

import logging

import transformers
from transformers import Pipeline

import drawahead as da

LOG = logging.getLogger("drawahead")
KNOWN = ("4.57", "5.22")
"""The versions of transformers that this was tried with."""
if not transformers.__version__.startswith(tuple(f"{known}." for known in KNOWN)):
    LOG.warning("drawahead: tried with transformers %s, not with %s", ", ".join(KNOWN), transformers.__version__)


class DrawaheadFillPipeline(Pipeline):
    """Texts with mask tokens in; for each text a list of `num_samples` filled ones out.

    A sample is a dict: `sequence`, `token_ids`, and the `rounds` it took. Options: `num_samples`, `seed`, `sampler`,
    `order` as in `drawahead.sample` and `MaskedLM.chain`; `temperature`, `top_k`, `top_p`, `forbid` as in `MaskedLM`.
    After a call `report` says what it cost.
    """

    _load_tokenizer, _load_processor, _load_image_processor, _load_feature_extractor = True, False, False, False
    report = None

    def __call__(self, inputs, **options):
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        filled = super().__call__({"texts": texts}, **options)  # no list: they share rounds
        return filled[0] if isinstance(inputs, str) else filled

    def _sanitize_parameters(self, num_samples=None, seed=None, sampler=None, order=None, **law):
        options = {"num_samples": num_samples, "seed": seed, "sampler": sampler, "order": order}
        drawing = {name: value for name, value in options.items() if value is not None}
        return {}, drawing | ({"law": law} if law else {}), {}

    def preprocess(self, inputs):
        return inputs

    def _forward(self, inputs, num_samples=1, seed=None, sampler=None, order=None, law=None):
        model = da.adapters.MaskedLM(self.model, self.tokenizer, **law or {})
        prompts = [text for text in inputs["texts"] for _ in range(num_samples)]
        result = da.sample(model.chain(prompts, order=order), len(prompts), sampler=sampler, seed=seed)
        self.report = result.report
        if result.report.rounds >= result.report.steps > 1:
            LOG.info("drawahead: nothing is gained, one mask at a time: %s", result.report.choice or "as asked for")
        rows = zip(model.text(result.samples), result.samples.tolist(), result.report.sample_rounds, strict=True)
        drawn = [{"sequence": text, "token_ids": ids, "rounds": rounds} for text, ids, rounds in rows]
        return {"drawn": [drawn[i : i + num_samples] for i in range(0, len(drawn), num_samples)]}

    def postprocess(self, outputs):
        return outputs["drawn"]
