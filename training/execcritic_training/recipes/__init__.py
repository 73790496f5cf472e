"""Recipes: what a training run is, in one file of YAML for each role and stage; `schema` says what may stand in one.

The shipped ones lie beside this file and are named without their ending; any other is named by its path.
"""

from execcritic_training.recipes.load import load_rl, load_sft, shipped
from execcritic_training.recipes.schema import RlRecipe, SftRecipe

__all__ = ["RlRecipe", "SftRecipe", "load_rl", "load_sft", "shipped"]
