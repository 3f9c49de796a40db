"""Images, sound and files in chat messages: passed on to a model, or refused, never dropped."""

from hearth.openai_api.chat import Message
from hearth.service.http_errors import Refused
from pipecatapp.application.engine import Plan


def kinds_of(messages: list[Message]) -> list[str]:
    """The kinds of all parts that are not text, such as `image_url`; each once."""
    parts = [part for one in messages if isinstance(one.content, list) for part in one.content]
    kinds = [str(part.get("type")) for part in parts]
    return [kind for kind in dict.fromkeys(kinds) if kind != "text"]


def refuse_dropped(model: str, kinds: list[str], plan: Plan, *, conversation: bool) -> None:
    """Raise `Refused` (400) if parts of these kinds would not be sent to a model.

    A workflow that reads only the text of the request drops them, and so does a request with
    `conversation`, whose messages are stored as text.
    """
    if not kinds or (not conversation and plan.passes_on("messages")):
        return
    told = "a request with `conversation`" if conversation else repr(model)
    message = f"Invalid value: {kinds[0]!r}. The only supported value is 'text': {told} takes text."
    raise Refused(400, "invalid_value", message, param="messages")
