"""The agent: runs of workflows, their steps, the tools they call."""

from tests.dashboards.panels import RATE, Board, lines, quantiles

AGENT = Board(
    "hearth-agent",
    "Hearth: agent and workflows",
    "Runs, steps, tool calls and how long they take.",
    [
        lines(
            "Runs",
            "Runs that ended, per second, by workflow and how they ended.",
            (
                f"sum by (workflow, status) (rate(pipecatapp_runs_total{RATE}))",
                "{{workflow}} {{status}}",
            ),
        ),
        lines(
            "Running now",
            "Runs under way.",
            ("sum(pipecatapp_runs_running)", "runs"),
        ),
        lines(
            "Listeners",
            "Browsers and programs that follow a run as it goes on.",
            ("sum(pipecatapp_event_listeners)", "listeners"),
        ),
        lines(
            "Time of a run",
            "From its start to its end.",
            *quantiles("pipecatapp_run_seconds", "workflow"),
            unit="s",
        ),
        lines(
            "Steps",
            "Steps that ended, per second, by what they used.",
            (
                f"sum by (tool, status) (rate(pipecatapp_node_seconds_count{RATE}))",
                "{{tool}} {{status}}",
            ),
        ),
        lines(
            "Time of a step",
            "How long steps take, by what they use.",
            *quantiles("pipecatapp_node_seconds", "tool"),
            unit="s",
        ),
        lines(
            "Tool calls",
            "Calls of tools per second, by how they ended.",
            (
                f"sum by (tool, status) (rate(pipecatapp_tool_calls_total{RATE}))",
                "{{tool}} {{status}}",
            ),
        ),
        lines(
            "Talking",
            "Conversations by voice now.",
            ("sum(voice_sessions_running)", "conversations"),
        ),
        lines(
            "Time to the first sound",
            "What people wait for after they have spoken.",
            *quantiles("voice_stage_seconds", "stage"),
            unit="s",
        ),
        lines(
            "Troubles of voice",
            "Troubles in turns by voice per second, by part.",
            (f"sum by (part) (rate(voice_errors_total{RATE}))", "{{part}}"),
        ),
        lines(
            "Tokens",
            "Tokens of models that runs have read and written, per second.",
            (f"sum by (kind) (rate(pipecatapp_tokens_total{RATE}))", "{{kind}}"),
        ),
        lines(
            "Memory",
            "What the agent and the gateway hold in memory.",
            (
                'sum by (job) (process_resident_memory_bytes{job=~"pipecatapp|moe-gateway"})',
                "{{job}}",
            ),
            unit="bytes",
        ),
    ],
)
