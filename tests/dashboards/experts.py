"""The gateway and the experts behind it."""

from tests.dashboards.panels import RATE, Board, lines, quantiles, rows

EXPERTS = Board(
    "hearth-experts",
    "Hearth: experts and gateway",
    "Requests, tokens, waiting times and served models.",
    [
        lines(
            "Requests",
            "Answered requests per second; gone: the client disconnected.",
            (
                f"sum by (model, status) (rate(moe_gateway_requests_total{RATE}))",
                "{{model}} {{status}}",
            ),
            unit="reqps",
        ),
        lines(
            "Time to the first token",
            "From the request to the first byte of its answer. If the answer is not streamed, this"
            " is the time to the complete answer.",
            *quantiles("moe_gateway_first_byte_seconds", "model"),
            unit="s",
        ),
        lines(
            "Time to the last token",
            "From the request to the end of its answer.",
            *quantiles("moe_gateway_duration_seconds", "model"),
            unit="s",
        ),
        lines(
            "Tokens",
            "Prompt and completion tokens per second.",
            (
                f"sum by (model, kind) (rate(moe_gateway_tokens_total{RATE}))",
                "{{model}} {{kind}}",
            ),
        ),
        lines(
            "Active requests",
            "Active requests of the gateway, by server.",
            ("sum by (server) (moe_gateway_in_flight)", "{{server}}"),
        ),
        lines(
            "Queue",
            "Requests that wait at the gateway for a slot of an expert, and requests that each"
            " expert processes.",
            ("sum by (model) (moe_gateway_waiting)", "{{model}} waiting"),
            ("sum by (expert) (llamacpp:requests_processing)", "{{expert}} working"),
        ),
        lines(
            "Time in the queue",
            "Waiting time of the requests that were queued.",
            *quantiles("moe_gateway_queue_seconds", "model"),
            unit="s",
        ),
        lines(
            "Failovers",
            "Requests that were retried on another server, by the failed server.",
            (f"sum by (server) (increase(moe_gateway_failovers_total{RATE}))", "{{server}}"),
        ),
        lines(
            "Speed of the experts",
            "Tokens per second, as each expert reports them.",
            (f"sum by (expert) (rate(llamacpp:prompt_tokens_total{RATE}))", "{{expert}} read"),
            (
                f"sum by (expert) (rate(llamacpp:tokens_predicted_total{RATE}))",
                "{{expert}} written",
            ),
        ),
        lines(
            "Healthy servers",
            "1: the server passes the gateway's health checks. Circuit open: after repeated"
            " failures it gets no requests for some seconds.",
            ("min by (server) (moe_gateway_instance_up)", "{{server}}"),
            ("max by (server) (moe_gateway_circuit_open)", "{{server}} circuit open"),
        ),
        lines(
            "Rank of the running model",
            "Position in the list of its expert: 0 is the preferred model, higher numbers are"
            " fallbacks, -1: none runs.",
            ("max by (expert) (llama_expert_model_rank)", "{{expert}}"),
        ),
        rows(
            "Models",
            "The model on each server.",
            "sum by (expert, model, server) (moe_gateway_instance_serves)",
        ),
    ],
)
