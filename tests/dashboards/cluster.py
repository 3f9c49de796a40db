"""The cluster at a glance: what answers, what is wrong, where things run."""

from tests.dashboards.panels import RATE, Board, lines, number, rows

CLUSTER = Board(
    "hearth-cluster",
    "Hearth: cluster",
    "What answers, what is wrong, and where things run.",
    [
        lines(
            "Answering",
            "How many instances of each service answer Prometheus.",
            ("sum by (job) (up == 1)", "{{job}}"),
        ),
        rows(
            "Alerts",
            "What is wrong now; pending alerts become firing ones when they last.",
            "sum by (alertname, alertstate, severity, job, node) (ALERTS)",
        ),
        rows(
            "Models",
            "Which model runs on which server of the gateway.",
            "sum by (expert, model, server) (moe_gateway_instance_serves)",
        ),
        number(
            "Machines",
            "Machines and instances of services that Consul knows.",
            ("max(consul_consul_state_nodes)", "machines"),
            ("max(consul_consul_state_service_instances)", "instances"),
        ),
        number(
            "Servers",
            "The leader of Consul; 1 when all Nomad servers are healthy.",
            ("sum(consul_server_isLeader)", "leaders of Consul"),
            ("max(nomad_nomad_autopilot_healthy)", "Nomad is healthy"),
        ),
        lines(
            "Jobs",
            "Jobs of Nomad by their status.",
            ("max(nomad_nomad_job_status_running)", "running"),
            ("max(nomad_nomad_job_status_pending)", "pending"),
            ("max(nomad_nomad_job_status_dead)", "dead"),
        ),
        lines(
            "Allocations",
            "Allocations that run or wait, by machine.",
            ("sum by (node) (nomad_client_allocations_running)", "{{node}} running"),
            ("sum by (node) (nomad_client_allocations_pending)", "{{node}} pending"),
        ),
        lines(
            "Memory promised",
            "Memory of each machine that Nomad has given to jobs.",
            ("sum by (node) (nomad_client_allocated_memory) * 1e6", "{{node}}"),
            unit="decbytes",
        ),
        lines(
            "Questions to Consul",
            "Questions that the agents ask the servers, per second.",
            (f"sum by (node) (rate(consul_client_rpc{RATE}))", "{{node}}"),
            unit="reqps",
        ),
    ],
)
