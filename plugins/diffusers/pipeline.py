"""Any pipeline of diffusers, sampled in parallel rounds.

For `DiffusionPipeline.from_pretrained(..., custom_pipeline=FOLDER)`, FOLDER being this one. The pipeline that
`model_index.json` names is built from its own components, and its loop is sampled by drawahead. It is called like that
pipeline, and what it returns has a `report` beside.
"""

import inspect
import threading
from collections import defaultdict

import diffusers
from diffusers import DiffusionPipeline

import drawahead as da

_LOADING = threading.local()  # the class and settings of model_index.json, between reading it and building the pipeline


class DrawaheadCustomPipeline(DiffusionPipeline):
    """What diffusers makes of this folder: it hands over the pipeline's own components, whichever those are."""

    def __new__(cls, **components):
        make = getattr(diffusers, _LOADING.name, None)
        if make is None:
            raise ValueError(
                f"diffusers {diffusers.__version__} has no {_LOADING.name}: update it, or load that by hand"
            )
        parameters = inspect.signature(make.__init__).parameters
        absent = dict.fromkeys(name for name in parameters if name in make._optional_components)
        settings = {name: value for name, value in _LOADING.settings.items() if name in parameters}
        return da.adapters.DrawaheadPipeline.from_pipe(make(**absent | settings | components))

    def __init__(self):
        """Never called: `__new__` returns another pipeline."""

    @classmethod
    def extract_init_dict(cls, config_dict, **options):
        """Every component that `model_index.json` lists; its settings are for the pipeline's own class."""
        entries = {name: value for name, value in config_dict.items() if not name.startswith("_")}
        components = {name: value for name, value in entries.items() if isinstance(value, list | tuple)}
        _LOADING.name = config_dict["_class_name"]
        _LOADING.settings = {name: value for name, value in entries.items() if name not in components}
        return components, options, {}

    @classmethod
    def _get_signature_types(cls):
        return defaultdict(lambda: (inspect.Signature.empty,))
