"""Opens npz files; what cannot be read is said in a line."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from passes.errors import RewriteError

__all__ = ["open_npz", "reading"]

_ONE_ARRAY = b"\x93NUMPY"


def open_npz(path: str | Path, holds: str) -> Any:
    """Open an npz file; its arrays are read as they are asked for, inside of `reading`.

    Args:
        path: The file.
        holds: What it is to hold.

    Raises:
        RewriteError: It does not exist, is no npz file, or holds one array.
    """
    with reading(path, holds):
        with Path(path).open("rb") as file:
            begins = file.read(len(_ONE_ARRAY))
        if begins == _ONE_ARRAY:
            raise RewriteError(f"{path} holds one array; {holds} are an npz file")
        if not zipfile.is_zipfile(path):
            raise RewriteError(f"{path} is not an npz file: write one with numpy.savez")
        return np.load(path, allow_pickle=False)


@contextlib.contextmanager
def reading(path: str | Path, holds: str) -> Iterator[None]:
    """Say in a RewriteError what of an npz file cannot be read.

    Args:
        path: The file.
        holds: What it is to hold.
    """
    try:
        yield
    except FileNotFoundError:
        raise RewriteError(f"{path} does not exist; give the npz file with the {holds}.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "pickle" in str(error):
            what = "holds Python objects: give arrays of numbers, booleans or strings"
        else:
            what = f"is not a readable npz file of plain arrays: {error}"
        raise RewriteError(f"{path} {what}") from error
