"""Whole Hugging Face models: plan the pairs, find each of them anywhere, keep what is done, measure the result."""

from strongticket.construct.models.build import model

__all__ = ["model"]
