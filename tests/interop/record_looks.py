"""Record the pictures of the console's pages anew, in tests/golden/console.

    python tests/interop/record_looks.py           those that changed by more than what is tolerated, and new ones
    python tests/interop/record_looks.py --all     all

Needs `chromium` on the PATH and `pip install playwright pillow`. Look at each changed picture before committing it.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from harness import looks  # noqa: E402 (it is found only now)
from harness.console import chromium  # noqa: E402


def record(every: bool) -> None:
    """Take all pictures, write those that changed, and delete those without a page."""
    looks.RECORDED.mkdir(parents=True, exist_ok=True)
    known = {each.name for each in looks.LOOKS}
    for path in looks.RECORDED.glob("*.png"):
        if path.stem not in known:
            path.unlink()
            print(f"{path.stem}: deleted, it has no page")
    made = looks.made_pages()
    with chromium() as browser:
        photographer = looks.Photographer(browser)
        for look in looks.LOOKS:
            picture, before = photographer.picture(look, made[look]), looks.recorded(look)
            found = 100.0 if before is None else looks.difference(before, picture)
            if every or found > looks.MOST_PERCENT:
                (looks.RECORDED / f"{look.name}.png").write_bytes(looks.encoded(picture))
                print(f"{look.name}: {'new' if before is None else f'{found:.2f} % changed'}")
        photographer.close()


if __name__ == "__main__":
    record("--all" in sys.argv[1:])
