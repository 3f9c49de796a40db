"""The gateway and the experts behind it."""

from tests.dashboards.panels import RATE, Board, lines, quantiles, rows

EXPERTS = Board(
    "hearth-experts",
    "Hearth: experts and gateway",
    "Requests, tokens, waiting times, and which model runs.",
    [
        lines(
            "Requests",
            "Requests answered per second; gone: the caller hung up.",
            (
                f"sum by (model, status) (rate(moe_gateway_requests_total{RATE}))",
                "{{model}} {{status}}",
            ),
            unit="reqps",
        ),
        lines(
            "Time to the first token",
            "From the request to the first byte of its answer. Of an answer that is not streamed,"
            " that is the whole of it.",
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
            "Tokens read (prompt) and written (completion) per second.",
            (
                f"sum by (model, kind) (rate(moe_gateway_tokens_total{RATE}))",
                "{{model}} {{kind}}",
            ),
        ),
        lines(
            "Under way",
            "Requests that the gateway waits for, by server.",
            ("sum by (server) (moe_gateway_in_flight)", "{{server}}"),
        ),
        lines(
            "Queue",
            "Requests that wait at the gateway for a slot of an expert, and those that each expert"
            " works on.",
            ("sum by (model) (moe_gateway_waiting)", "{{model}} waiting"),
            ("sum by (expert) (llamacpp:requests_processing)", "{{expert}} working"),
        ),
        lines(
            "Time in the queue",
            "How long those waited that had to.",
            *quantiles("moe_gateway_queue_seconds", "model"),
            unit="s",
        ),
        lines(
            "Failovers",
            "Requests that went on to another server, by the one that failed.",
            (f"sum by (server) (increase(moe_gateway_failovers_total{RATE}))", "{{server}}"),
        ),
        lines(
            "Experts' own pace",
            "Tokens per second, as each expert counts them.",
            (f"sum by (expert) (rate(llamacpp:prompt_tokens_total{RATE}))", "{{expert}} read"),
            (
                f"sum by (expert) (rate(llamacpp:tokens_predicted_total{RATE}))",
                "{{expert}} written",
            ),
        ),
        lines(
            "Healthy servers",
            "1: the server answers the gateway's health checks. Left alone: it failed again and"
            " again, and rests for some seconds.",
            ("min by (server) (moe_gateway_instance_up)", "{{server}}"),
            ("max by (server) (moe_gateway_circuit_open)", "{{server}} left alone"),
        ),
        lines(
            "Place of the running model",
            "Place in the list of its expert: 0 is the wanted model, higher ones are fallbacks,"
            " -1: none runs.",
            ("max by (expert) (llama_expert_model_rank)", "{{expert}}"),
        ),
        rows(
            "Models",
            "Which model really runs on which server.",
            "sum by (expert, model, server) (moe_gateway_instance_serves)",
        ),
    ],
)
