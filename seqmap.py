"""The public face of seqmap: ``import seqmap`` gives what ``import rewriter`` gives."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import TYPE_CHECKING, Any

import rewriter
from rewriter.commands.shadowing import warn_of_shadows

if TYPE_CHECKING:
    from rewriter import *  # noqa: F403 - the same names, for type checkers

    __version__: str

__all__ = [*rewriter.__all__, "__version__"]


warn_of_shadows()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("seqmap")
    return getattr(rewriter, name)


def __dir__() -> list[str]:
    return __all__


if __name__ == "__main__":
    from rewriter.cli import main

    sys.exit(main())
