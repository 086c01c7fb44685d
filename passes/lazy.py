"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["load_attribute"]


def load_attribute(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """Import a public name of a package, and keep it there.

    Args:
        package: The package, already imported.
        name: The name that was asked for.
        modules: For each public name the module that defines it; a name that is a module of the
            package stands for itself.

    Raises:
        AttributeError: The package has no such public name.
    """
    if name not in modules:
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package]
        )
    module = importlib.import_module(modules[name])
    found = module if modules[name] == f"{package}.{name}" else getattr(module, name)
    setattr(sys.modules[package], name, found)
    return found
