"""A browser for the tests of pages: ``python -m tests.browser`` installs Debian's Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess

__all__ = ["REQUIRED", "find", "install", "why_not"]

REQUIRED = "BROWSER_REQUIRED"
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str:
    """Return the path of a browser; empty where none is installed."""
    return next(filter(None, map(shutil.which, _NAMES)), "")


def why_not() -> str:
    """Return why no page can be shown here; empty where one can.

    Raises:
        RuntimeError: There is no browser although the environment says that it is REQUIRED.
    """
    if find():
        return ""
    reason = f"none of {', '.join(_NAMES)} is installed; python -m tests.browser installs one"
    if os.environ.get(REQUIRED):
        raise RuntimeError(f"{REQUIRED} is set, and {reason}")
    return reason


def install() -> None:
    """Install a browser, which takes the rights to.

    Raises:
        OSError: There is no ``apt-get``.
        subprocess.CalledProcessError: The package cannot be had.
    """
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", _NAMES[0]]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "--quiet"], check=True, env=environment)
    subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    if not find():
        install()
