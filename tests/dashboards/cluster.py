"""The cluster at a glance: what answers, what is wrong, where things run."""

from tests.dashboards.panels import RATE, Board, lines, number, rows

CLUSTER = Board(
    "hearth-cluster",
    "Hearth: cluster",
    "Health of the services, alerts, and placement of jobs and models.",
    [
        lines(
            "Responding instances",
            "Number of instances of each service that respond to Prometheus.",
            ("sum by (job) (up == 1)", "{{job}}"),
        ),
        rows(
            "Alerts",
            "Current alerts; a pending alert fires if its cause persists.",
            "sum by (alertname, alertstate, severity, job, node) (ALERTS)",
        ),
        rows(
            "Models",
            "The model on each server of the gateway.",
            "sum by (expert, model, server) (moe_gateway_instance_serves)",
        ),
        number(
            "Machines",
            "Machines and instances of services in Consul.",
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
            "Reserved memory",
            "Memory of each machine that jobs have reserved.",
            ("sum by (node) (nomad_client_allocated_memory) * 1e6", "{{node}}"),
            unit="decbytes",
        ),
        lines(
            "Requests to Consul",
            "Requests of the agents to the servers per second.",
            (f"sum by (node) (rate(consul_client_rpc{RATE}))", "{{node}}"),
            unit="reqps",
        ),
    ],
)
