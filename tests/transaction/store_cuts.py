"""What a power cut leaves of a store."""

import shutil


def cut(store, end):
    """What a power cut leaves: the log up to *end*, and nothing that was made of it."""
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
