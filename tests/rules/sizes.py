"""Print modules and folders that are worth a second look: `make sizes`.

These are warnings and fail nothing. A limit would be met by splitting code in the wrong place.
"""

import sys
from collections import Counter

from tests.rules import tree

LINES = 400
MODULES = 12


def warnings() -> list[str]:
    """Return a line for each long module of the product and each full folder."""
    product = {file: len(tree.text(file).splitlines()) for file in tree.product()}
    modules = [file for file in tree.python(*tree.PACKAGES, "tests") if file.name != "__init__.py"]
    folders = Counter(file.parent for file in modules)
    return [
        *(f"{file}: {lines} lines" for file, lines in product.items() if lines > LINES),
        *(f"{folder}: {count} modules" for folder, count in folders.items() if count > MODULES),
    ]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in warnings()))
