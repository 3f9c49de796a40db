"""Tools: typed async functions that a workflow or a model may call.

The function is the declaration: its docstring, signature and annotations define its purpose, inputs
and outputs. Inputs and outputs are checked on every call.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeVar, cast, get_args

from pydantic import BaseModel, Field, ValidationError

from pipecatapp.workflow.needs import Need
from pipecatapp.workflow.workspace import Worktree

Effect = Literal["pure", "llm", "read", "workspace", "exec", "net", "external", "human"]
"""The side effect of a call.

It determines the handling of an interrupted call (see `REPEATABLE` and `Tool.resumable`).
"""

EFFECTS: frozenset[Effect] = frozenset(get_args(Effect))

REPEATABLE: frozenset[Effect] = frozenset({"pure", "llm", "read", "workspace", "exec", "net"})
"""Effects that a resumed run may repeat.

A tool that changes something outside of Hearth has the effect `external`.
"""

Where = Literal["local", "nomad", "docker"]
"""Places where programs run: this machine's sandbox, a job of the cluster, a container."""

Json = dict[str, Any]
T = TypeVar("T")

Approve = Literal["never", "first", "always"]
"""When a person must approve a call that a model wants: never, before the first one of a
conversation, or before each.
"""


@dataclass(frozen=True)
class SetByAuthor:
    """Marks an input that only a document sets. An agent is not offered it: a model must not choose
    its own limits, models or powers.
    """


BY_AUTHOR: Final = SetByAuthor()
"""Write `Annotated[int, BY_AUTHOR, Field(…)]`."""


class ToolInputs(BaseModel):
    """Inputs that several tools have.

    A tool with a parameter of a subclass has the fields of this class as separate inputs, and
    receives them as one object.
    """


class ToolFailed(Exception):
    """A tool cannot do its job.

    Raise it with a sentence for the person who reads the run: its node fails with it.
    """


class InputRefused(ToolFailed):
    """The input does not fit the tool's input schema.

    Nothing was called; correct the `with` of the node.
    """


class ToolUnavailable(ToolFailed):
    """This machine lacks something that the tool needs; the message says what installs it."""


class OutputRefused(ToolFailed):
    """The output of the tool does not match its output schema: correct the tool."""


class ServiceMissing(LookupError):
    """A tool requested an object that the engine does not have. Pass it in
    `Engine(services={...})`."""


@dataclass(frozen=True)
class ModelNeeds:
    """Requirements for a model: capabilities, context in tokens, locality, maximum cost."""

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
    """Properties of models that the application provides as `services={ModelFacts: ...}`."""

    def takes_tools(self, model: str) -> bool:
        """Return whether a model (an id, not a role) supports tools; false if it is unknown."""
        return False

    def fitting(self, model: str, needs: ModelNeeds) -> tuple[list[str], str]:
        """The ids to ask for a model, in their order; none, and why, when it does not fit."""
        return ([], "its properties are unknown") if str(needs) else ([model], "")

    def cost(self, model: str) -> float:
        """Return the cost of a token of the model relative to the tokens of other models."""
        return 1.0

    def context(self, model: str) -> int | None:
        """Return the context size of the model, in tokens of request and answer; None: unknown."""
        return None

    def knows(self, model: str) -> bool:
        """Whether the gateway has a model or an expert of this name; true if that is not known."""
        return True

    def served(self, model: str) -> str:
        """The model that answers for a name, such as `smollm2` for `auto`; the name if several may
        or if that is not known.
        """
        return model

    def free_slots(self, model: str) -> int:
        """How many requests to it can be answered at the same time now, at least 1."""
        return 1

    def ready(self) -> bool:
        """Return whether models are available, or the time to wait for them has passed."""
        return True


class Question(BaseModel):
    """A question of a run to a person; see `Context.ask`."""

    text: str
    choices: list[str] = []
    """When there are some, the answer is one of them."""
    returns: Any = None
    """Type of the answer, in the short-hand of documents; text by default."""
    show: Any = None
    """Data that helps the person to decide."""
    after: float | None = None
    """Seconds, counted from the first request over all restarts, after which the question expires.

    Then `otherwise` is the answer; without `otherwise` the call fails.
    """
    otherwise: Any = None
    by_voice: bool = True
    """Whether an answer that was only spoken counts."""


class Reply(BaseModel):
    """An answer, its author and its time (ISO 8601, UTC). `by` is empty if the question expired."""

    value: Any
    by: str = ""
    at: str = ""


class Facts(BaseModel):
    """Facts about a call; stored with its step and shown in the inspector."""

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


class Approval(Protocol):
    """Requests a person's approval of a model's call; see `Context.approved`."""

    def __call__(self, tool: str, given: Mapping[str, Any], *, at: str) -> Awaitable[None]: ...


def _no_past(_at: str) -> Json | None:
    return None


def _no_notes(_turn: str) -> list[str]:
    return []


async def _nobody(question: Question) -> Reply:
    raise ToolFailed(f"Nobody can be asked outside of a run: {question.text!r}.")


async def _unapproved(tool: str, given: Mapping[str, Any], *, at: str) -> None:
    """Outside of a run nothing is called, so nothing needs approval."""


async def _alone(
    tool: str, given: Mapping[str, Any], *, at: str, say: Callable[[str], None]
) -> Json:
    raise ToolFailed(
        f"The tool {tool!r} cannot be called at {at}: this call runs outside of a run."
    )


def _unheard(_text: str) -> None:
    """Discard text without a listener."""


@dataclass
class Context:
    """The interface of a tool to its run.

    The defaults allow to call a tool outside of a run.
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
    """Where programs started by this call run."""
    project: Json | None = None
    """The project of the document that makes this call; None if a model makes it."""
    leaving: Callable[[], bool] = lambda: False
    """Whether the run continues in another process if this call is cancelled now."""
    tools: Mapping[str, "Tool"] = field(default_factory=lambda: MappingProxyType({}))
    services: Mapping[Any, object] = field(default_factory=lambda: MappingProxyType({}))
    speak: Callable[[str], None] = _unheard
    inner: Inner = _alone
    approval: Approval = _unapproved
    questions: Callable[[Question], Awaitable[Reply]] = _nobody
    notes: Callable[[str], list[str]] = _no_notes
    """Returns the notes since the last turn; its argument names the current turn."""
    before: Callable[[str], Json | None] = _no_past
    """Returns the input of an inner call before a restart; None if it had not started."""
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
        """Stream a piece of text to the current listeners.

        It is never stored; return the whole text as output.
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
        """Call another tool as the instance `<path>/<at>`, recorded as a separate step.

        A finished instance is never repeated: after a resume its stored output is returned (or its
        `ToolFailed` raised). Its streamed text is passed to `say`, or streamed by this call itself.
        """
        return await self.inner(tool, given, at=at, say=say or self.speak)

    async def approved(self, tool: str, given: Mapping[str, Any], *, at: str) -> None:
        """Wait until a person approves a call that a model requests, if its tool needs approval.

        Raises `ToolFailed` if a person declines, or if nobody can be asked.
        """
        await self.approval(tool, given, at=at)

    async def ask(self, question: Question) -> Reply:
        """Ask a person and wait, for days if necessary; only permitted with the effect `human`.

        The process may end meanwhile: the resumed run calls the tool again, which asks the same
        question and gets the existing answer. So ask once, and change nothing before or after. An
        answer given at the start of the run (`--answer`) is returned at once. Raises `ToolFailed`
        if the question expires, or if the run is not interactive.
        """
        return await self.questions(question)


@lru_cache(1000)
def _schema(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> Json:
    return model.model_json_schema(mode=mode)


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
    approve: Approve | Callable[[Mapping[str, Any]], Approve] | None = None
    """When a model's call needs approval, or how the input decides that; None: by the effect."""
    idempotent: bool = False
    """Whether repeating the same call in the same run has no further effect."""
    shared: Mapping[str, type[ToolInputs]] = field(default_factory=lambda: MappingProxyType({}))
    """Parameters of the function that stand for several inputs."""
    needs: tuple[Need, ...] = ()
    """Optional packages and programs that it uses."""

    def unavailable(self) -> str:
        """Return why this machine cannot run it, in sentences; empty if it can."""
        return " ".join(reason for need in self.needs if (reason := need.missing()))

    @property
    def resumable(self) -> bool:
        """Whether a resumed run makes a call again that was cut off."""
        return self.effect in REPEATABLE or self.idempotent

    def approval(self, given: Mapping[str, Any]) -> Approve:
        """When a model's call with this input needs approval."""
        if callable(self.approve):
            return self.approve(given)
        return self.approve or ("first" if self.effect == "external" else "never")

    def input_schema(self) -> Json:
        """JSON Schema of the inputs; always the same object, which must not be changed."""
        return _schema(self.takes, "validation")

    @property
    def author_inputs(self) -> frozenset[str]:
        """Names of the inputs that only a document sets."""
        fields = self.takes.model_fields
        return frozenset(name for name, field in fields.items() if BY_AUTHOR in field.metadata)

    def schema_for_models(self, taken: Collection[str] = ()) -> Json:
        """JSON Schema of the inputs that a model sets; `taken` names more that the document has."""
        schema = dict(self.input_schema())
        left = {*self.author_inputs, *taken}
        known = {
            name: one for name, one in schema.get("properties", {}).items() if name not in left
        }
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in left]
        return {**schema, "properties": known} if left else schema

    def output_schema(self) -> Json:
        """JSON Schema of the output; always the same object, which must not be changed."""
        return _schema(self.gives, "serialization")

    def accept(self, given: Mapping[str, Any]) -> BaseModel:
        """The input as the tool will see it; raises `InputRefused`."""
        try:
            return self.takes.model_validate(dict(given))
        except ValidationError as error:
            raise InputRefused(f"{self.name}: {complaints(error)}") from error

    async def check(self, ctx: Context, given: Mapping[str, Any]) -> Json:
        """Call the tool with validated input; returns its validated output as plain JSON values.

        Raises `InputRefused`, `ToolUnavailable`, `OutputRefused`, and the tool's own `ToolFailed`.
        """
        accepted = self.accept(given)
        if reason := self.unavailable():
            raise ToolUnavailable(f"{self.name} is not available on this machine. {reason}")
        result = await self.run(ctx, **self._arguments(accepted))
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

    def _arguments(self, accepted: BaseModel) -> Json:
        """Return the arguments of the function for the checked inputs."""
        left = {name: getattr(accepted, name) for name in type(accepted).model_fields}
        shared = {
            parameter: model.model_construct(
                **{name: left.pop(name) for name in model.model_fields}
            )
            for parameter, model in self.shared.items()
        }
        return {**left, **shared}


def complaints(error: ValidationError) -> str:
    """Return pydantic's errors in one line: `zone: Input should be a valid string; days: …`."""
    return "; ".join(
        ": ".join(part for part in (".".join(map(str, fault["loc"])), fault["msg"]) if part)
        for fault in error.errors(include_url=False)
    )
