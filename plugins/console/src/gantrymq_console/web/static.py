"""Files of the console: styles, scripts, icons. Read once; their addresses contain a digest, so browsers keep them."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["serve", "version"]


@cache
def contents() -> dict[str, bytes]:
    """Return the files by their path below ``static/``."""
    found: dict[str, bytes] = {}

    def read(folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                read(each, f"{prefix}{each.name}/")
            else:
                found[prefix + each.name] = each.read_bytes()

    read(files("gantrymq_console").joinpath("static"), "")
    return found


@cache
def version() -> str:
    """Return a digest of all files."""
    digest = hashlib.sha256()
    for path, data in sorted(contents().items()):
        digest.update(path.encode() + b"\0" + data)
    return digest.hexdigest()[:12]


async def serve(request: Request) -> Response:
    """Return the file that the path names."""
    data = contents().get(request.path_params["path"])
    if data is None:
        return Response("no such file", 404)
    kind = mimetypes.guess_type(request.path_params["path"])[0] or "text/plain"
    kept = request.path_params["version"] == version()
    caching = "public, max-age=31536000, immutable" if kept else "no-cache"
    return Response(data, media_type=kind, headers={"Cache-Control": caching})
