"""The state of a store after a power loss."""

import shutil


def cut(store, end):
    """Reduce a store to its state after a power loss: the log up to *end*, without derived files."""
    (path,) = (store / "commitlog").iterdir()
    with path.open("r+b") as log:
        log.seek(end)
        log.write(bytes(path.stat().st_size - end))
    for folder in ("consumequeue", "index"):
        shutil.rmtree(store / folder, ignore_errors=True)
    for name in (
        "checkpoint",
        "config/checkpoint.json",
        "config/consumerOffset.json",
        "config/consumerOffset.json.bak",
    ):
        (store / name).unlink(missing_ok=True)
    (store / "abort").write_bytes(b"")
