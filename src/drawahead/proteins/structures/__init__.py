"""Protein structures: from files, from coordinates, or made up."""

from drawahead.proteins.structures.backbone import Backbone as Backbone
from drawahead.proteins.structures.files import made_up_backbone as made_up_backbone
