"""Among the instances of one expert, the least busy one is asked, whoever keeps the others busy."""

import httpx2

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, Lab, chat, instances_of, wait_until


def test_slots_that_others_keep_busy_count(lab: Lab) -> None:
    """A second gateway, or a program with the expert's own key, is seen in `/slots` alone."""
    models = [ScriptedModel(slots=4), ScriptedModel(slots=4)]
    for model in models:
        model.when("mine").hang("one", after=1)
    urls = [lab.serve(model.app) for model in models]
    gateway = lab.gateway(*(lab.at(url, expert="small", slots=4) for url in urls))

    def busy() -> list[int]:
        return [one["busy_elsewhere"] for one in instances_of(gateway)]

    for model, url in zip(models, urls, strict=True):
        asked = chat("mine", stream=True)
        with httpx2.stream("POST", f"{url}{CHAT}", json=asked, timeout=60, trust_env=False):
            wait_until(lambda: sorted(busy()) == [0, 1])
            before = [len(one.requests) for one in models]
            for _ in range(4):
                gateway.post(CHAT, json=chat("x")).raise_for_status()
            came = [len(one.requests) - n for one, n in zip(models, before, strict=True)]
        wait_until(lambda: busy() == [0, 0])

        assert came == [0 if one is model else 4 for one in models]
