"""Tools: typed async functions that a workflow or a model may call.

The function is the declaration: its docstring, signature and annotations say what it takes, what it
gives and what it is for. Both sides are checked on every call.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from pipecatapp.workflow.workspace import Worktree

Effect = Literal["pure", "llm", "read", "workspace", "exec", "net", "external", "human"]
"""What a call does to the world.

It alone decides what happens when a call was cut off (see `REPEATABLE`).
"""

EFFECTS: frozenset[Effect] = frozenset(get_args(Effect))

REPEATABLE: frozenset[Effect] = frozenset({"pure", "llm", "read", "workspace", "exec", "net"})
"""Effects that a resumed run may have again.

A tool that changes something outside says `external`.
"""

Where = Literal["local", "nomad", "docker"]
"""Places where programs run: this machine's sandbox, a job of the cluster, a container."""

Json = dict[str, Any]
T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")


class ToolFailed(Exception):
    """A tool cannot do its job.

    Raise it with a sentence for the person who reads the run: its node fails with it.
    """


class InputRefused(ToolFailed):
    """The input does not fit the tool's input schema.

    Nothing was called; correct the `with` of the node.
    """


class OutputRefused(ToolFailed):
    """The tool gave something that its output schema does not allow. The tool is wrong; mend it."""


class ToolMistake(TypeError):
    """A tool is declared wrongly.

    It shows when the program starts; correct the function that is named.
    """


class ServiceMissing(LookupError):
    """A tool asked for an object the engine was not given. Pass it in `Engine(services={...})`."""


@dataclass(frozen=True)
class ModelNeeds:
    """What a model must be: able to do this, hold so many tokens, run at home, cost no more."""

    able: frozenset[str] = frozenset()
    context: int | None = None
    privacy: Literal["any", "local"] = "any"
    max_cost: float | None = None

    def and_also(self, other: "ModelNeeds") -> "ModelNeeds":
        """Both."""
        costs = [one.max_cost for one in (self, other) if one.max_cost is not None]
        contexts = [one.context for one in (self, other) if one.context is not None]
        local = "local" in (self.privacy, other.privacy)
        return ModelNeeds(
            self.able | other.able,
            max(contexts, default=None),
            "local" if local else "any",
            min(costs, default=None),
        )

    def __str__(self) -> str:
        told = [*sorted(self.able)]
        told += [] if self.context is None else [f"room for {self.context} tokens"]
        told += ["at home"] if self.privacy == "local" else []
        told += [] if self.max_cost is None else [f"cost {self.max_cost:g} at most"]
        return ", ".join(told)


class ModelFacts:
    """What the application knows of models; give one as `services={ModelFacts: ...}`."""

    def takes_tools(self, model: str) -> bool:
        """Whether this model (an id, not a role) can be offered tools. Not, unless it is known."""
        return False

    def fitting(self, model: str, needs: ModelNeeds) -> tuple[list[str], str]:
        """The ids to ask for a model, in their order; none, and why, when it does not fit."""
        return ([], "nothing is known of it") if str(needs) else ([model], "")

    def cost(self, model: str) -> float:
        """What a token of it costs beside the tokens of other models."""
        return 1.0


class Question(BaseModel):
    """What a run asks a person; see `Context.ask`."""

    text: str
    choices: list[str] = []
    """When there are some, the answer is one of them."""
    returns: Any = None
    """Type of the answer, in the short-hand of documents; a text when it says nothing."""
    show: Any = None
    """What the person should see to decide."""
    after: float | None = None
    """Seconds, counted from the first asking over all restarts, after which nobody is waited for.

    Then `otherwise` is the answer; without `otherwise` the asking fails.
    """
    otherwise: Any = None


class Reply(BaseModel):
    """What was answered, by whom and when (ISO 8601, UTC). `by` is empty when the time was over."""

    value: Any
    by: str = ""
    at: str = ""


class Facts(BaseModel):
    """What a call tells of itself; kept with its step and shown in the inspector."""

    model: str | None = None
    prompt: Any = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """The tokens, each times what one of its model costs."""
    more: Json = Field(default_factory=dict)


class Inner(Protocol):
    """How a tool calls another one; see `Context.call`."""

    def __call__(
        self, tool: str, given: Mapping[str, Any], *, at: str, say: Callable[[str], None]
    ) -> Awaitable[Json]: ...


def _no_past(_at: str) -> Json | None:
    return None


def _no_notes(_turn: str) -> list[str]:
    return []


async def _nobody(question: Question) -> Reply:
    raise ToolFailed(f"Nobody can be asked outside of a run: {question.text!r}.")


async def _alone(
    tool: str, given: Mapping[str, Any], *, at: str, say: Callable[[str], None]
) -> Json:
    raise ToolFailed(
        f"The tool {tool!r} cannot be called at {at}: this call runs outside of a run."
    )


def _unheard(_text: str) -> None:
    """What is said where nobody listens."""


@dataclass
class Context:
    """What a tool sees of the run it works for.

    With its defaults it serves to call a tool by hand.
    """

    run: str = ""
    path: str = ""
    attempt: int = 1
    request: str = ""
    """The task the run was started for, as the person wrote it."""
    workspace: Path | None = None
    """The folder that tools with the effect `workspace` or `exec` work in."""
    worktree: Worktree | None = None
    """The same folder with its states."""
    where: Where = "local"
    """Where programs run that this call starts."""
    project: Json | None = None
    """What the project of the document says that makes this call; None where a model makes it."""
    leaving: Callable[[], bool] = lambda: False
    """Whether the run goes on in another process when this call is cancelled now."""
    tools: Mapping[str, "Tool"] = field(default_factory=lambda: MappingProxyType({}))
    services: Mapping[Any, object] = field(default_factory=lambda: MappingProxyType({}))
    speak: Callable[[str], None] = _unheard
    inner: Inner = _alone
    questions: Callable[[Question], Awaitable[Reply]] = _nobody
    notes: Callable[[str], list[str]] = _no_notes
    """What people have said since the last turn; its argument names the turn that is told."""
    before: Callable[[str], Json | None] = _no_past
    """What the inner call at a place was given before a restart; None where it had not begun."""
    facts: Facts = field(default_factory=Facts)

    def service(self, kind: type[T]) -> T:
        """The application's object for this type."""
        try:
            return cast("T", self.services[kind])
        except KeyError:
            raise ServiceMissing(
                f"{self.path}: no service {kind.__name__!r} was given to the engine."
            ) from None

    async def say(self, text: str) -> None:
        """Stream a piece of text to whoever listens now.

        It is never stored; give the whole text as output.
        """
        self.speak(text)

    def record(
        self,
        *,
        model: str | None = None,
        prompt: object = None,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        cost: float | None = None,
        **facts: Any,
    ) -> None:
        """Keep facts with this step.

        Later values replace earlier ones; None leaves what is there.
        """
        told = {
            "model": model,
            "prompt": prompt,
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "cost": cost,
        }
        for name, value in told.items():
            if value is not None:
                setattr(self.facts, name, value)
        self.facts.more.update(facts)

    async def call(
        self,
        tool: str,
        given: Mapping[str, Any],
        *,
        at: str,
        say: Callable[[str], None] | None = None,
    ) -> Json:
        """Call another tool as the instance `<path>/<at>`, journaled on its own.

        A finished instance is never repeated: after a resume its stored output (or
        `ToolFailed`) comes back.
        What it says goes to `say`, or is said by this call itself.
        """
        return await self.inner(tool, given, at=at, say=say or self.speak)

    async def ask(self, question: Question) -> Reply:
        """Ask a person and wait, for days if need be; only a tool with the effect `human` may.

        The process may end meanwhile: the resumed run calls the tool again, which asks the same
        and gets the answer that came. So ask once, and change nothing before or after.
        An answer given with the start of the run (`--answer`) comes at once. Raises `ToolFailed`
        when the time is over, or when the run has nobody to ask.
        """
        return await self.questions(question)


@dataclass(frozen=True)
class Tool:
    """A typed function with a name, a version and an effect."""

    name: str
    version: int
    about: str
    effect: Effect
    takes: type[BaseModel]
    gives: type[BaseModel]
    run: Callable[..., Awaitable[BaseModel]]
    workspace: bool = False
    """Whether it sees the folder of its run."""

    def input_schema(self) -> Json:
        """JSON Schema of what it takes."""
        return self.takes.model_json_schema()

    def output_schema(self) -> Json:
        """JSON Schema of what it gives."""
        return self.gives.model_json_schema(mode="serialization")

    def accept(self, given: Mapping[str, Any]) -> BaseModel:
        """The input as the tool will see it; raises `InputRefused`."""
        try:
            return self.takes.model_validate(dict(given))
        except ValidationError as error:
            raise InputRefused(f"{self.name}: {complaints(error)}") from error

    async def check(self, ctx: Context, given: Mapping[str, Any]) -> Json:
        """Call it: input checked before, output after. Gives the output as plain JSON values."""
        accepted = self.accept(given)
        result = await self.run(
            ctx, **{name: getattr(accepted, name) for name in type(accepted).model_fields}
        )
        if not isinstance(result, self.gives):
            raise OutputRefused(
                f"{self.name}: gave {type(result).__name__}, not {self.gives.__name__}"
            )
        try:
            return self.gives.model_validate(result.model_dump(warnings=False)).model_dump(
                mode="json"
            )
        except ValidationError as error:
            raise OutputRefused(f"{self.name}: its output is wrong: {complaints(error)}") from error


def complaints(error: ValidationError) -> str:
    """What pydantic found, in one line: `zone: Input should be a valid string; days: …`."""
    return "; ".join(
        ": ".join(part for part in (".".join(map(str, fault["loc"])), fault["msg"]) if part)
        for fault in error.errors(include_url=False)
    )


def tool(
    name: str, *, effect: Effect, version: int = 1, workspace: bool = False
) -> Callable[[Callable[..., Awaitable[BaseModel]]], Tool]:
    """Make a tool of `async def f(ctx: Context, …typed parameters…) -> SomeModel`.

    One that sees the run's `workspace` says so; the effects `workspace` and `exec` say it for it.
    """
    if not _NAME.fullmatch(name):
        raise ToolMistake(
            f"Tool {name!r}: a name is lower-case words joined by dots, such as 'time.now'."
        )

    def make(function: Callable[..., Awaitable[BaseModel]]) -> Tool:
        about = inspect.getdoc(function)
        if not about:
            raise ToolMistake(f"Tool {name!r} needs a docstring: people and models read it.")
        takes, gives = _takes(name, function), _gives(name, function)
        sees = workspace or effect in ("workspace", "exec")
        return Tool(name, version, about, effect, takes, gives, function, sees)

    return make


def _takes(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if (
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            or parameter.name not in hints
        ):
            raise ToolMistake(
                f"Tool {name!r}: parameter {parameter.name!r} needs a type of its own."
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return cast("type[BaseModel]", create_model(name, __config__=config, **fields))


def _gives(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    gives = get_type_hints(function).get("return")
    if not (
        inspect.iscoroutinefunction(function)
        and inspect.isclass(gives)
        and issubclass(gives, BaseModel)
    ):
        raise ToolMistake(f"Tool {name!r} must be an async function that returns a pydantic model.")
    return gives
