"""seqmap: ONNX models with SequenceMap, rewritten so that every runtime can run them."""

from __future__ import annotations

from passes.errors import RewriteError
from rewriter.models import ModelError, ModelWarning, load, save

__all__ = ["ModelError", "ModelWarning", "RewriteError", "load", "save"]
