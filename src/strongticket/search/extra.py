"""The packages of the optional extra ``search``, with an error that says how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(package: str) -> Any:
    """The package, or an error that names the extra.

    >>> need("json").__name__
    'json'
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {package!r}: pip install 'strongticket[search]' ({error})"
        ) from error
