"""How relevant each definition of a repository is: PageRank on definitions and their uses.

L. Page et al., "The PageRank Citation Ranking" (1999), section 6 for the personalised form. The
nodes are definitions and the code of files outside of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from pipecatapp.tools.code.map.tags import Tag, Tags

Place = tuple[str, int]
"""A file, and the index of a definition in it; -1 is the code outside of all."""

DAMPING: Final = 0.7
"""The share of a definition's rank that is passed to the definitions it uses. It is low because a
fix needs nearby code."""
ROUNDS: Final = 20
"""Number of iterations; after them, less than a thousandth of the rank is not distributed yet."""
COMMON: Final = 12
"""A name with more definitions than this says nothing about which one is used."""
BACK: Final = 0.3
"""The weight of a caller beside that of what is called."""
NEAR: Final = 5
"""How much likelier a use means a definition of the same file, or of an imported one, than any."""
STRAY: Final = 0.1
"""The same for a bare name that the file does not import: most are local variables."""
FAMILIES: Final = (
    frozenset({".py", ".pyi"}),
    frozenset({".java"}),
    frozenset({".cs"}),
    frozenset({".go"}),
    frozenset({".rs"}),
    frozenset({".sql"}),
    frozenset({".sh", ".bash"}),
    frozenset({".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".tsx"}),
    frozenset({".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"}),
)
"""Languages whose files use definitions of each other."""
NAMELESS: Final = frozenset({"__init__", "index", "mod"})
"""Files that are imported by the name of their folder."""
INSIDE: Final = 0.5
"""The weight of the class of a method, and of the constructor of a class."""
CONSTRUCTORS: Final = frozenset({"__init__", "constructor", "new", "__new__"})


class Graph:
    """The definitions of a repository and the references between them."""

    def __init__(self, files: Mapping[str, Tags]) -> None:
        self.files = files
        self._by_name: dict[str, list[Place]] = defaultdict(list)
        self._family = {path: _family(path) for path in files}
        self._module = {path: _module(path) for path in files}
        for path, tags in files.items():
            for index, tag in enumerate(tags.definitions):
                self._by_name[tag.name].append((path, index))
        self._edges: dict[Place, dict[Place, float]] = defaultdict(lambda: defaultdict(float))
        for path, tags in files.items():
            self._connect(path, tags)

    def tag(self, place: Place) -> Tag:
        return self.files[place[0]].definitions[place[1]]

    def places(self) -> Iterator[Place]:
        """All definitions, by file and line."""
        for path, tags in self.files.items():
            yield from ((path, index) for index in range(len(tags.definitions)))

    def named(self, name: str) -> list[Place]:
        """The definitions with a name, a qualified name or the end of one; `file:name` is one of
        this file.
        """
        file, _, wanted = name.replace("::", ".").rpartition(":")
        return [
            place
            for place in self._by_name.get(wanted.rpartition(".")[2], ())
            if f".{self.tag(place).qualified}".endswith(f".{wanted}") and file in ("", place[0])
        ]

    def within(self, path: str, start: int, end: int) -> list[Place]:
        """The definitions of a file that lie in lines; else the smallest that holds the first."""
        tags = self.files.get(path)
        definitions = tags.definitions if tags else ()
        inside = [
            (path, index)
            for index, tag in enumerate(definitions)
            if start <= tag.line and tag.end <= end
        ]
        around = [
            (path, index) for index, tag in enumerate(definitions) if tag.start <= start <= tag.end
        ]
        return inside or around[-1:]

    def ranks(self, seeds: Mapping[Place, float]) -> dict[Place, float]:
        """The rank of each definition that seeds lead to; without seeds, of all."""
        start = dict(seeds) or dict.fromkeys(self.places(), 1.0)
        total = sum(start.values())
        start = {place: weight / total for place, weight in start.items()}
        ranks = dict(start)
        for _ in range(ROUNDS):
            after = {place: (1 - DAMPING) * weight for place, weight in start.items()}
            for place, rank in ranks.items():
                for target, share in self._shares(place):
                    after[target] = after.get(target, 0.0) + DAMPING * rank * share
            ranks = after
        return ranks

    def _shares(self, place: Place) -> Iterator[tuple[Place, float]]:
        targets = self._edges.get(place, {})
        total = sum(targets.values())
        yield from ((target, weight / total) for target, weight in targets.items())

    def _connect(self, path: str, tags: Tags) -> None:
        for index, names in tags.references.items():
            for name, weight in names.items():
                for target, share in self._meant(path, name):
                    if target != (path, index):
                        # The tenth use of a name says little more than the first.
                        self._use((path, index), target, share * weight**0.5)
        scopes = {tag.qualified: index for index, tag in enumerate(tags.definitions)}
        for index, tag in enumerate(tags.definitions):
            outer = scopes.get(tag.qualified.rpartition(".")[0])
            if outer is not None and outer != index:
                self._edges[path, index][path, outer] += INSIDE
                if tag.name in CONSTRUCTORS:
                    self._edges[path, outer][path, index] += INSIDE

    def _use(self, user: Place, used: Place, weight: float) -> None:
        self._edges[user][used] += weight
        if user[1] >= 0:
            self._edges[used][user] += BACK * weight

    def _meant(self, path: str, name: str) -> Iterator[tuple[Place, float]]:
        """The definitions that a name may mean, with the likelihood of each."""
        attribute, imported = name.startswith("."), self.files[path].references.get(-1, {})
        places = [one for one in self._by_name.get(name.lstrip("."), ())
                  if self._family[one[0]] == self._family[path]]  # fmt: skip
        near = {one for one in places if one[0] == path or self._module[one[0]] in imported}
        if len(places) > COMMON:
            places = [one for one in places if one in near]
        weights = {
            one: NEAR if one in near else 1 if attribute or name in imported else STRAY
            for one in places
            # A bare name can refer only to a method of the same class.
            if attribute or one[0] == path or self.tag(one).kind != "method"
        }
        total = max(NEAR, sum(weights.values()))
        yield from ((one, weight / total) for one, weight in weights.items())


def by_rank(places: Iterable[Place], ranks: Mapping[Place, float]) -> list[Place]:
    """Definitions, the highest rank first; equal ones in the order of files and lines."""
    return sorted(places, key=lambda one: (-round(ranks.get(one, 0.0), 12), one))


def _family(path: str) -> int:
    suffix = PurePosixPath(path).suffix.lower()
    return next((at for at, family in enumerate(FAMILIES) if suffix in family), -1)


def _module(path: str) -> str:
    """The name by which a file is imported."""
    place = PurePosixPath(path)
    return place.parent.name if place.stem in NAMELESS else place.stem
