"""Declare a tool: the function is the declaration.

Its docstring, signature and annotations define its purpose, inputs and outputs.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from pipecatapp.workflow.needs import Need
from pipecatapp.workflow.tool import Approve, Effect, Tool, ToolInputs

_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")


class ToolMistake(TypeError):
    """A tool is declared wrongly.

    It shows when the program starts; correct the function that is named.
    """


def tool(
    name: str,
    *,
    effect: Effect,
    version: int = 1,
    workspace: bool = False,
    approve: Approve | Callable[[Mapping[str, Any]], Approve] | None = None,
    idempotent: bool = False,
    needs: tuple[Need, ...] = (),
) -> Callable[[Callable[..., Awaitable[BaseModel]]], Tool]:
    """Make a tool of `async def f(ctx: Context, …typed parameters…) -> SomeModel`.

    `workspace` declares that it uses the run's folder; the effects `workspace` and `exec` imply it.
    A parameter whose type is a subclass of `ToolInputs` stands for the fields of that class.
    `approve` defines when a model's call needs approval, or is a function of the input that does;
    the default for the effect `external` is the first call. A tool with this effect is `idempotent`
    if repeating the same call in the same run has no further effect: a resumed run then repeats an
    interrupted call.
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
        shared = _shared(function)
        return Tool(
            name,
            version,
            about,
            effect,
            takes,
            gives,
            function,
            workspace=sees,
            approve=approve,
            idempotent=idempotent,
            shared=shared,
            needs=needs,
        )

    return make


def _takes(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    shared = _shared(function)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if (
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            or parameter.name not in hints
        ):
            raise ToolMistake(f"Tool {name!r}: parameter {parameter.name!r} needs a type.")
        if parameter.name in shared:
            fields |= {
                name: (info.annotation, info)
                for name, info in shared[parameter.name].model_fields.items()
            }
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return cast("type[BaseModel]", create_model(name, __config__=config, **fields))


def _shared(function: Callable[..., Any]) -> dict[str, type[ToolInputs]]:
    """Return the parameters that stand for several inputs."""
    return {
        name: hint
        for name, hint in get_type_hints(function).items()
        if name != "return" and inspect.isclass(hint) and issubclass(hint, ToolInputs)
    }


def _gives(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    gives = get_type_hints(function).get("return")
    if not (
        inspect.iscoroutinefunction(function)
        and inspect.isclass(gives)
        and issubclass(gives, BaseModel)
    ):
        raise ToolMistake(f"Tool {name!r} must be an async function that returns a pydantic model.")
    return gives
