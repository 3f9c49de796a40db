"""The map of what surrounds the excerpts: definitions that they use or that use them."""

from collections.abc import Mapping, Sequence

from pipecatapp.tools.code.context.candidates import Candidate
from pipecatapp.tools.code.map.ranking import Graph, Place, by_rank
from pipecatapp.tools.code.map.rendering import fill
from pipecatapp.tools.code.map.tags import Tags


def surroundings(tags: Mapping[str, Tags], shown: Sequence[Candidate], room: int) -> str:
    """Map the definitions that excerpts lead to, within `room` tokens; empty if there are none.

    Definitions that the excerpts show are left out, except a class above one of its methods.
    """
    graph = Graph(tags)
    seeds: dict[Place, float] = {}
    visible: set[Place] = set()
    for number, one in enumerate(shown):
        places = graph.within(one.path, one.start, one.end)
        visible.update(places)
        for place in places:
            # The first excerpts are the likeliest to hold the error.
            seeds[place] = seeds.get(place, 0.0) + 1 / (1 + number) / len(places)
    if not seeds:
        return ""
    ranks = graph.ranks(seeds)
    reached = [place for place in graph.places() if ranks.get(place, 0.0) > 0]
    return fill(graph, by_rank((one for one in reached if one not in visible), ranks), room)[0]
