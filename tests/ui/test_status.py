"""The status page: how everything is, in words."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect
from starlette.applications import Starlette

from hearth.service.health import Health
from hearth.service.metrics import new_registry
from hearth.service.server import service_routes
from tests.integration.gateway.consul import running
from tests.ui.conftest import Serve, Visitor, faults


@pytest.mark.proves("004-42")
def test_status_is_a_readable_table(visitor: Visitor) -> None:
    """People look here when something is wrong; they must not have to read JSON."""
    page = visitor.enter()

    page.get_by_test_id("nav-status").click()

    services = page.get_by_test_id("services")
    expect(services.get_by_role("columnheader")).to_have_text(["Name", "Health", "Since", "Detail"])
    well = services.get_by_role("row", name="moe-gateway")
    expect(well.locator("state-badge")).to_have_text("Healthy")
    expect(well.locator("state-badge svg .mark")).to_have_count(1)
    expect(well.locator("time")).to_have_text(re.compile(r"just now|ago$"))
    expect(well.locator("time-since")).to_contain_text(re.compile(r"\d{1,2}:\d\d"))
    ill = services.get_by_role("row", name="speech-stt")
    expect(ill.locator("state-badge")).to_have_text("Not healthy")
    expect(ill.locator("[data-name=detail]")).not_to_be_empty()
    expert = page.get_by_test_id("experts").get_by_role("row", name="scripted")
    expect(expert).to_contain_text("Healthy")
    expect(page.get_by_test_id("summary")).to_contain_text("1 service is down: speech-stt")
    expect(page.get_by_test_id("programs")).to_contain_text(
        re.compile("A cgroup limits their memory|Their memory is watched from outside")
    )
    expect(page.locator("main")).not_to_contain_text("{")


def test_status_follows_what_happens_by_itself(visitor: Visitor) -> None:
    """The page is left open while one mends something."""
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    expect(page.get_by_test_id("experts").get_by_role("row", name="scripted")).to_be_visible()

    visitor.house.model.expert |= {"healthy": False, "reason": "The model file is damaged."}

    row = page.get_by_test_id("experts").get_by_role("row", name="scripted")
    expect(row).to_contain_text("Not healthy")
    expect(row).to_contain_text("The model file is damaged.")


def test_status_tells_what_starts_by_itself(visitor: Visitor) -> None:
    """Who asks why something ran in the night finds it here, and when it will again."""
    new = {"workflow": "summarize", "cron": "0 8 * * *", "zone": "Europe/Berlin"}
    with visitor.house.client() as client:
        answer = client.put("/api/schedules/morning", json={**new, "inputs": {"text": "News."}})
        answer.raise_for_status()
    page = visitor.enter()

    page.get_by_test_id("nav-status").click()

    row = page.get_by_test_id("schedules").get_by_role("row", name="morning")
    expect(row).to_contain_text("summarize")
    expect(row.locator("[data-name=next]")).to_contain_text(re.compile(r"\d{1,2}:\d\d"))
    expect(row.locator("[data-name=last]")).to_have_text("never")
    expect(row.locator("[data-name=times]")).to_have_text("0 8 * * * · Europe/Berlin")


def test_status_of_a_cluster_names_machines_and_leads_to_other_pages(
    visitor: Visitor, tmp_path: Path
) -> None:
    """From the one page that people keep open to where more can be seen."""
    (tmp_path / "consul").mkdir()
    with running(tmp_path / "consul") as consul:
        consul.register("moe-gateway", urlsplit(visitor.house.gateway).port or 0)
        consul.register("grafana", 3000)
        consul.register("node-exporter", 9100, state="critical")
        visitor.house.more = {
            "consul_url": consul.url,
            "links": {"Nomad": "https://node1:4646/ui", "Consul": "https://node1:8501/ui"},
        }
        visitor.restart()
        page = visitor.enter()

        page.get_by_test_id("nav-status").click()

        machine = page.get_by_test_id("machines").get_by_role("row", name="machine1")
        expect(machine).to_contain_text("127.0.0.1")
        expect(machine.locator("[data-name=services]")).to_contain_text(
            "consul, grafana, moe-gateway, node-exporter"
        )
        rows = page.get_by_test_id("services").get_by_role("row")
        expect(rows.nth(1)).to_contain_text("node-exporter")
        links = page.get_by_test_id("links").get_by_role("link")
        expect(links).to_have_text(["Grafana", "Nomad", "Consul"])
        assert faults(page) == []

        consul.stop()
        expect(page.get_by_test_id("problem")).to_contain_text("Consul does not answer")
        expect(machine).to_be_visible()


def test_status_reports_one_cause_once(visitor: Visitor, serve: Serve) -> None:
    """A model server that stopped is a service, an expert and a gateway without experts, and one
    cause: people look for the second fault that does not exist."""
    gateway = Health("moe-gateway", version="1")
    gateway.not_ready("experts", "no expert answers: smollm2 (its process has ended)")
    gateway.ready_again("start")
    visitor.house.model.expert |= {"name": "smollm2", "healthy": False, "reason": "It has ended."}
    health = serve(Starlette(routes=service_routes(gateway, new_registry())))
    services = {"llama-expert-smollm2": "http://127.0.0.1:9", "moe-gateway": health}
    visitor.house.more = {"services": services}
    visitor.restart()
    page = visitor.enter()

    page.get_by_test_id("nav-status").click()

    expect(page.get_by_test_id("summary").locator("strong")).to_have_text(
        "1 service is down: smollm2"
    )
    expect(page.get_by_test_id("services").get_by_role("row", name="moe-gateway")).to_be_visible()


def test_status_is_not_green_while_it_cannot_be_queried(visitor: Visitor) -> None:
    """A green banner above data that nobody could refresh hides the fault that one looks for."""
    visitor.house.more = {"services": {"moe-gateway": visitor.house.gateway}}
    visitor.restart()
    page = visitor.enter()
    page.get_by_test_id("nav-status").click()
    summary = page.get_by_test_id("summary")
    expect(summary.and_(page.locator("[data-state=done]"))).to_contain_text("Everything is working")
    expect(page.get_by_test_id("freshness")).to_contain_text("checked just now")

    page.route("**/api/status", lambda route: route.fulfill(status=502))

    expect(summary.and_(page.locator("[data-state=idle]"))).to_contain_text(
        "The current status is unknown"
    )
    expect(summary).to_contain_text("When it was last checked: everything is working")
    expect(page.get_by_test_id("freshness")).to_contain_text(re.compile(r"checked \d+ s ago"))


def test_status_that_is_never_answered_turns_unknown(visitor: Visitor) -> None:
    """A service that hangs answers with no error: the age of the data has to show it."""
    page = visitor.enter()
    page.clock.install()
    page.get_by_test_id("nav-status").click()
    expect(page.get_by_test_id("summary")).to_contain_text("1 service is down")
    page.route("**/api/status", lambda _route: None)

    page.clock.run_for(20_000)

    expect(page.get_by_test_id("summary")).to_contain_text("The current status is unknown")


def test_status_is_not_green_while_the_experts_cannot_be_listed(visitor: Visitor) -> None:
    """A gateway that is healthy and refuses the list leaves the state of the models unknown."""
    visitor.house.more = {"services": {"moe-gateway": visitor.house.gateway}}
    visitor.house.model.expert = {"name": None}
    visitor.restart()
    page = visitor.enter()

    page.get_by_test_id("nav-status").click()

    summary = page.get_by_test_id("summary")
    expect(summary.and_(page.locator("[data-state=waiting]"))).to_be_visible()
    expect(page.get_by_test_id("problem")).to_contain_text("does not list its experts")
