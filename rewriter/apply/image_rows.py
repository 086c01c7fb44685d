"""Reads images, and a folder of them as samples."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from passes.errors import RewriteError
from rewriter.running.predictor import Unreadable

__all__ = ["IMAGES", "ImageRows", "read_image", "require_pillow"]

Array = np.ndarray[Any, Any]
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})
"""How the names of images end."""
_WIDE = ("I", "F")
"""How pillow calls pixels of 16 or 32 bits; a conversion cuts off what is beyond 255."""
_TOO_WIDE = "pixels of more than 8 bits; make them bytes first"


class ImageRows:
    """Images of a folder, each ``uint8[height, width, 3]``, in the order of their names."""

    def __init__(
        self, folder: Path, files: Sequence[Path], inputs: Sequence[str], *, is_named: bool
    ) -> None:
        """Describe the samples.

        Args:
            folder: The folder, or the one image.
            files: The images in it.
            inputs: The inputs that hold samples.
            is_named: Whether the id of an image is its name in the folder, and not its number.
        """
        require_pillow()
        if len(inputs) != 1:
            raise RewriteError(f"a folder of images gives one input; this model has {inputs}")
        folder = folder if folder.is_dir() else folder.parent
        self._files = files
        self._names = [file.relative_to(folder).as_posix() for file in files]
        self._input = inputs[0]
        self._is_named = is_named

    def __len__(self) -> int:
        return len(self._files)

    def read(self, start: int, stop: int) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return a range of rows; see `Rows`."""
        numbers = range(len(self._files))[start:stop]
        ids = [self._names[number] if self._is_named else number for number in numbers]
        return ids, [{self._input: self._image(number)} for number in numbers]

    def _image(self, number: int) -> Array | Unreadable:
        return read_image(self._files[number], self._names[number])


def read_image(source: Path | IO[bytes], name: str) -> Array | Unreadable:
    """Return an image, ``uint8[height, width, 3]``, or why it cannot be read.

    Args:
        source: Its file, or its bytes as they stand in one.
        name: What it is called.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source) as image:
            if image.mode.startswith(_WIDE):
                return Unreadable(f"{name} has {_TOO_WIDE}")
            return np.asarray(image.convert("RGB"))
    except UnidentifiedImageError:
        return Unreadable(f"{name} is not a readable image")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return Unreadable(f"{name} is not a readable image: {error}")


def require_pillow() -> None:
    """Raise RewriteError if the package that reads images is not installed."""
    if importlib.util.find_spec("PIL") is None:
        raise RewriteError("reading images needs the package pillow; install it")
