"""The cluster's own old files: `nodes` with a type, and inputs that are connected to outputs.

Their loop of model, tool parser and tool executor, spread over several nodes and a part of the
program, is one node here: an `agent`, which calls tools until it has an answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pipecatapp.application.importers.imported import ImportDraft, Json, near, node_id, plain
from pipecatapp.workflow.syntax import Path

MODELS: Final = frozenset({"LLMNode", "SimpleLLMNode", "VisionLLMNode"})
PARSES: Final = "ToolParserNode"
INSIDE: Final = frozenset(
    {PARSES, "ToolExecutorNode", "ConditionalBranchNode", "ExpertRouterNode", "GateNode"}
)
"""Node types of an agent's loop."""
KNOWN: Final = frozenset(
    {"InputNode", "OutputNode", "PromptBuilderNode", "SystemPromptNode", "MergeNode"}
    | {"ConsulServiceDiscoveryNode"}
    | MODELS
    | INSIDE
)
TOOLS: Final = ("time.now", "cluster.status", "note.save", "note.find")
"""Tools that an imported agent may call: those of the chat."""


class Connections:
    """Turns connected nodes into a graph."""

    def __init__(self, imported: ImportDraft, nodes: list[Any]) -> None:
        self._to = imported
        self._inputs: Json = {}
        self._outputs: Json = {}
        self._nodes: list[Json] = []
        self._ids: dict[str, str] = {}
        self._old: dict[str, tuple[Path, Json]] = {}
        for index, node in enumerate(nodes):
            path: Path = ("nodes", index)
            if isinstance(node, dict) and isinstance(node.get("id"), str):
                self._old[node["id"]] = path, node
            else:
                imported.say(path, "a node is an object with an `id` and a `type`")
        self._agent = any(node.get("type") == PARSES for _, node in self._old.values())

    def read(self) -> None:
        """Fill the document."""
        for name, (path, node) in self._old.items():
            if node.get("type") not in KNOWN:
                mend = near(str(node.get("type")), KNOWN) or "Steps that read it get no value"
                self._to.say((*path, "type"), f"nothing here is a {node.get('type')}", mend)
            elif node["type"] != "InputNode":
                self._ids[name] = node_id(name, self._ids.values())
        last = sorted(self._old.values(), key=lambda old: old[1].get("type") == "InputNode")
        for path, node in last:
            if make := self._makers.get(str(node.get("type"))):
                make(path, node)
        document: Json = {"inputs": self._inputs} if self._inputs else {}
        self._to.document |= {**document, "graph": self._nodes, "outputs": self._outputs}

    @property
    def _makers(self) -> Mapping[str, Callable[[Path, Json], None]]:
        return {
            "InputNode": self._input,
            "OutputNode": self._output,
            "SystemPromptNode": self._system,
            "PromptBuilderNode": self._messages,
            "MergeNode": self._merge,
            "ConsulServiceDiscoveryNode": self._status,
            **dict.fromkeys(MODELS, self._model),
            **dict.fromkeys(INSIDE, self._inside),
        }

    def _input(self, path: Path, node: Json) -> None:
        read = f"{self._nodes} {self._outputs}"
        for index, out in enumerate(node.get("outputs") or []):
            name = node_id(out.get("name") if isinstance(out, dict) else out)
            if f"inputs.{name} " in read:
                self._inputs[name] = "text" if "text" in name else {"type": "any", "default": None}
            else:
                self._to.say((*path, "outputs", index), f"nothing reads the input {name!r} now")

    def _loops_back(self, node: Json) -> bool:
        """A merge of tool results is inside the agent, as what it merges is."""
        return self._agent and node.get("type") == "MergeNode"

    def _value(self, path: Path, given: Json) -> Any:
        """Convert an input: a value, or the output that it is connected to."""
        link = given.get("connection")
        if not isinstance(link, dict):
            return _plain(given.get("value"))
        if "transform" in given:
            self._to.say((*path, "transform"), "the whole value is given", key=True)
        return self._read(path, link)

    def _read(self, path: Path, link: Json) -> Any:
        name, output = str(link.get("from_node")), str(link.get("from_output"))
        if name not in self._old:
            told = f"there is no node {name!r}"
            self._to.say((*path, "connection", "from_node"), told, near(name, self._old))
            return None
        node = self._old[name][1]
        if node.get("type") == "InputNode":
            return f"{{{{ inputs.{node_id(output)} }}}}"
        if name not in self._ids:
            return None
        if node["type"] in INSIDE and self._agent:
            return self._of_agent(path, output)
        if self._loops_back(node) or node["type"] in INSIDE:
            return None
        return f"{{{{ {self._ids[name]}.{_field(node['type'])} }}}}"

    def _of_agent(self, path: Path, output: str) -> Any:
        """Convert an output of the loop: the answer is the agent's; a tool call stays inside the
        agent."""
        if output in ("final_response", "response_text"):
            model = next(id for id, (_, one) in self._old.items() if one.get("type") in MODELS)
            return f"{{{{ {self._ids[model]}.text }}}}"
        told = f"{output!r} stays inside the agent, which calls its tools itself"
        self._to.say((*path, "connection", "from_output"), told)
        return None

    def _given(self, path: Path, node: Json) -> Json:
        """Return the inputs of a node by their names, without inputs that have no value."""
        found: Json = {}
        for index, given in enumerate(node.get("inputs") or []):
            if isinstance(given, dict) and "name" in given:
                value = self._value((*path, "inputs", index), given)
                if value is not None:
                    found[str(given["name"])] = value
        return found

    def _model(self, path: Path, node: Json) -> None:
        given = self._given(path, node)
        made: Json = {"use": "agent" if self._agent else "llm"}
        if node.get("model"):
            made["model"] = self._to.model((*path, "model"), node["model"])
        if "messages" in given:
            told: Json = {"messages": given["messages"]}
        else:
            parts = [f"{name}:\n{value}" for name, value in given.items()]
            told = {"messages": [{"role": "user", "content": "\n\n".join(parts) or " "}]}
        if self._agent:
            told["tools"] = list(TOOLS)
            self._to.say(path, f"{node['id']!r} and the executor of its tools become one agent")
        if node["type"] == "VisionLLMNode":
            self._to.say((*path, "type"), "no picture of the screen is made", "Text only is asked")
        self._add(node, {**made, "with": told})

    def _inside(self, path: Path, node: Json) -> None:
        if not self._agent:
            told = f"a {node['type']} means something only behind a {PARSES}"
            self._to.say((*path, "type"), told)

    def _messages(self, path: Path, node: Json) -> None:
        given = self._given(path, node)
        system = given.pop("system_prompt", None)
        messages = [{"role": "system", "content": system}] if system else []
        texts = [str(value) for value in given.values()]
        messages.append({"role": "user", "content": "\n\n".join(texts) or "{{ run.request }}"})
        self._add(node, {"use": "value", "with": {"value": messages}})

    def _system(self, path: Path, node: Json) -> None:
        said = "You are the assistant of this home. Answer truthfully. Use tools when they help."
        for index, given in enumerate(node.get("inputs") or []):
            link = given.get("connection") if isinstance(given, dict) else None
            if isinstance(link, dict) and link.get("from_node") in self._ids:
                value = self._value((*path, "inputs", index), given)
                if value is not None:
                    said += f"\n\n{given.get('name')}: {value}"
        self._add(node, {"use": "value", "with": {"value": said}})

    def _merge(self, path: Path, node: Json) -> None:
        if not self._agent:
            given = self._given(path, node).values()
            reads = ", ".join(str(value)[2:-2].strip() for value in given)
            made = {"use": "value", "with": {"value": f"{{{{ first({reads}) }}}}"}}
            self._add(node, made)

    def _status(self, path: Path, node: Json) -> None:
        self._add(node, {"use": "cluster.status"})

    def _output(self, path: Path, node: Json) -> None:
        for index, given in enumerate(node.get("inputs") or []):
            place: Path = (*path, "inputs", index)
            value = given.get("value") if isinstance(given, dict) else None
            if isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()):
                found = {
                    name: self._value((*place, "value", name), {"name": name, **one})
                    for name, one in value.items()
                }
            else:
                found = {str(given.get("name")): self._value(place, given)}
            self._outputs |= {
                node_id(name): told for name, told in found.items() if told is not None
            }
        if self._outputs and "text" not in self._outputs:
            self._outputs["text"] = next(iter(self._outputs.values()))

    def _add(self, node: Json, made: Json) -> None:
        self._nodes.append({"id": self._ids[node["id"]], **made})


def _plain(value: Any) -> Any:
    """A value of the old file, in which two braces meant nothing."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return plain(value) if isinstance(value, str) else value


def _field(kind: str) -> str:
    """The output of what a node of the old kind has become."""
    if kind in MODELS:
        return "text"
    return "services" if kind == "ConsulServiceDiscoveryNode" else "value"
