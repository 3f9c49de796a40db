"""The agent: runs of workflows, their steps, the tools they call."""

from tests.dashboards.panels import RATE, Board, lines, quantiles

AGENT = Board(
    "hearth-agent",
    "Hearth: agent and workflows",
    "Runs, steps and tool calls, and their duration.",
    [
        lines(
            "Runs",
            "Completed runs per second, by workflow and status.",
            (
                f"sum by (workflow, status) (rate(pipecatapp_runs_total{RATE}))",
                "{{workflow}} {{status}}",
            ),
        ),
        lines(
            "Running now",
            "Active runs.",
            ("sum(pipecatapp_runs_running)", "runs"),
        ),
        lines(
            "Listeners",
            "Browsers and programs that receive the events of a run.",
            ("sum(pipecatapp_event_listeners)", "listeners"),
        ),
        lines(
            "Duration of a run",
            "From the start of a run to its end.",
            *quantiles("pipecatapp_run_seconds", "workflow"),
            unit="s",
        ),
        lines(
            "Steps",
            "Completed steps per second, by tool.",
            (
                f"sum by (tool, status) (rate(pipecatapp_node_seconds_count{RATE}))",
                "{{tool}} {{status}}",
            ),
        ),
        lines(
            "Duration of a step",
            "Duration of steps, by tool.",
            *quantiles("pipecatapp_node_seconds", "tool"),
            unit="s",
        ),
        lines(
            "Tool calls",
            "Tool calls per second, by status.",
            (
                f"sum by (tool, status) (rate(pipecatapp_tool_calls_total{RATE}))",
                "{{tool}} {{status}}",
            ),
        ),
        lines(
            "Voice conversations",
            "Active voice conversations.",
            ("sum(voice_sessions_running)", "conversations"),
        ),
        lines(
            "Time to the first sound",
            "Stages of the wait after the end of speech.",
            *quantiles("voice_stage_seconds", "stage"),
            unit="s",
        ),
        lines(
            "Voice errors",
            "Errors in spoken turns per second, by part.",
            (f"sum by (part) (rate(voice_errors_total{RATE}))", "{{part}}"),
        ),
        lines(
            "Tokens",
            "Prompt and completion tokens of runs per second.",
            (f"sum by (kind) (rate(pipecatapp_tokens_total{RATE}))", "{{kind}}"),
        ),
        lines(
            "Memory",
            "Memory of the agent and the gateway.",
            (
                'sum by (job) (process_resident_memory_bytes{job=~"pipecatapp|moe-gateway"})',
                "{{job}}",
            ),
            unit="bytes",
        ),
    ],
)
