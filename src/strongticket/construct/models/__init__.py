"""Whole Hugging Face models: plan the pairs, find each of them anywhere, keep what is done, measure the result."""

from strongticket.construct.models.build import model
from strongticket.construct.models.compare import Comparison, compare_models
from strongticket.construct.models.report import LayerErrors, ModelReport, model_report

__all__ = ["Comparison", "LayerErrors", "ModelReport", "compare_models", "model", "model_report"]
