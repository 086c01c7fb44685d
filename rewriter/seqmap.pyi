"""What type checkers read of ``import seqmap``; the wheel holds it as ``seqmap-stubs``.

A module that is one file cannot say itself that it is typed.
"""

import passes as passes
from rewriter import *  # noqa: F403

__all__: list[str]
__version__: str
