"""Put batched operators in the place of SequenceMap, Loop and Scan in ONNX models.

Rewrite a model, compare it with the one before, and print what became of each loop::

    import onnx
    import seqmap

    result = seqmap.rewrite("model.onnx", verify=True)
    onnx.save(result.model, "out.onnx")
    print(result.report)

The functions::

    optimize      the new model
    rewrite       the new model and the report
    explain       the report alone; nothing is rewritten
    validate      do two models compute the same?
    run, session  run a model once, or many times
    bench         time a model as given and rewritten
    Predictor     run the requests of many callers in batches
    load, save    models as onnx_ir.Model, whose weights stay on disk

What goes wrong is a RewriteError, with one sentence that says what to do. ``import rewriter``
gives the same names.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

_PACKAGES = ("passes", "rewriter")


def _hidden() -> str:
    """Return what hides a package of ours, in a sentence; empty where nothing does."""
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [*(spec.submodule_search_locations or ()), spec.origin] if spec else []
        found = next((str(place) for place in places if place), "nothing")
        if Path(found).resolve() != Path(__file__).resolve().parent / name:
            return (
                f"seqmap needs its own package {name!r}, and Python finds {found} in its place: "
                "rename that, or use another environment"
            )
    return ""


try:
    import passes
    import rewriter
    from rewriter.commands.shadowing import warn_of_shadows
except (ImportError, AttributeError) as error:
    if sentence := _hidden():
        raise ImportError(sentence) from error
    raise

if TYPE_CHECKING:
    from rewriter import *  # noqa: F403 - the same names, for type checkers

    __version__: str

__all__ = [*rewriter.__all__, "__version__", "passes"]


warn_of_shadows()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("seqmap")
    try:
        return getattr(rewriter, name)
    except AttributeError:
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__]) from None


def __dir__() -> list[str]:
    return __all__


if __name__ == "__main__":
    from rewriter.cli import main

    sys.exit(main())
