"""OrchestrAI's `pipeline:` lists: modules, with the names of their inputs and their output.

A module is a prompt for a model, so its item becomes a node `llm` with the prompt of its name. A
few modules have another purpose and become the corresponding nodes.
"""

from typing import Any, Final

from pipecatapp.application.importers.imported import ImportDraft, Json, near, node_id, plain
from pipecatapp.workflow.syntax import Path

KEYS: Final = {"module", "inputs", "output_name", "supplement", "model_config"}
SAMPLING: Final = {"temperature", "max_tokens"}
START: Final = "start_module"
ASKS: Final = "human_intervention"
RUNS: Final = frozenset({"debugger"})
"""Modules that run code until it works: an agent with the sandbox."""
CHANGES: Final = frozenset({"modify_codebase", "code_modifier"})
"""Modules that ask a person what is to be changed."""
DRAWS: Final = frozenset({"illustrator", "image_generator"})


class Pipeline:
    """Turns the items of one list into inputs and nodes."""

    def __init__(self, imported: ImportDraft, items: list[Any]) -> None:
        self._to, self._items = imported, items
        self._inputs: Json = {}
        self._gives: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._nodes: list[Json] = []
        self._places: dict[int, str] = {}
        """The output of each item that has a position here."""

    def read(self) -> None:
        """Fill the document."""
        items = [(("pipeline", index), item) for index, item in enumerate(self._items)]
        for path, item in items:
            if isinstance(item, dict) and isinstance(item.get("module"), str):
                self._name(path, item)
            else:
                self._to.say(path, "an item is an object with a `module`")
        for path, item in items:
            if path[1] in self._places:
                self._item(path, item)
        self._end()

    def _name(self, path: Path, item: Json) -> None:
        """Record the name under which later items read the output."""
        name = item.get("output_name")
        if not isinstance(name, str) or not name:
            self._to.say(path, f"the module {item['module']!r} gives nothing", "Add `output_name`")
            name = item["module"]
        if name in self._gives:
            self._to.say((*path, "output_name"), f"{name!r} is given twice", "Rename one of them")
            return
        self._places[int(path[1])] = name
        self._ids[name] = node_id(name, self._ids.values())
        if item["module"] == START:
            self._inputs[self._ids[name]] = {"type": "text", "about": "The request."}
            self._gives[name] = f"inputs.{self._ids[name]}"
        else:
            field = "answer" if item["module"] == ASKS else "text"
            self._gives[name] = f"{self._ids[name]}.{field}"

    def _item(self, path: Path, item: Json) -> None:
        module = item["module"]
        for key in item.keys() - KEYS:
            self._to.say((*path, key), f"`{key}` has no meaning here", near(key, KEYS), key=True)
        if module == START:
            return
        read = self._read(path, item)
        if module == ASKS:
            question = plain(item.get("supplement") or "What should be done?")
            self._add(path, {"use": "human.ask", "with": {"question": question, "show": read}})
        elif module in CHANGES:
            self._change(path, item, read)
        else:
            self._model(path, item, read)

    def _read(self, path: Path, item: Json) -> str:
        """Return the inputs of a module, each under its name."""
        parts = []
        given = item.get("inputs") or []
        for index, name in enumerate(given if isinstance(given, list) else [given]):
            if name in self._gives:
                parts.append(f"## {plain(name)}\n\n{{{{ {self._gives[name]} }}}}")
            else:
                mend = near(str(name), self._gives)
                self._to.say((*path, "inputs", index), f"nothing gives {name!r}", mend)
        return "\n\n".join(parts)

    def _model(self, path: Path, item: Json, read: str, *, wish: str = "") -> None:
        module, given = item["module"], self._sampling(path, item)
        told = self._instruction(path, module)
        if item.get("supplement"):
            told.append(plain(item["supplement"]))
        messages = [{"role": "system", "content": "\n\n".join(told)}] if told else []
        text = "\n\n".join(part for part in (read, wish) if part) or "{{ run.request }}"
        node: Json = {"use": "agent" if module in RUNS else "llm"}
        if module in RUNS:
            given["tools"] = ["code.run"]
            self._to.say((*path, "module"), f"{module!r} runs code in the sandbox, as an agent")
        if module in DRAWS:
            self._to.say((*path, "module"), f"{module!r}: a model describes the picture in words")
        if role := given.pop("model", None):
            node["model"] = role
        if module in self._to.prompts:
            node["prompt"] = [module]
        given["messages"] = [*messages, {"role": "user", "content": text}]
        self._add(path, {**node, "with": given})

    def _instruction(self, path: Path, module: str) -> list[str]:
        if module in self._to.prompts:
            return []
        mend = f"Keep one with the tag {module}, then import again"
        self._to.say((*path, "module"), f"no prompt has the tag {module!r}", mend)
        return [
            f"You are the {module.replace('_', ' ')}. Do its part of the task, and nothing else."
        ]

    def _sampling(self, path: Path, item: Json) -> Json:
        """Convert the module's model, temperature and length."""
        config = item.get("model_config") or {}
        if not isinstance(config, dict):
            self._to.say((*path, "model_config"), "`model_config` is an object")
            return {}
        found: Json = {name: config[name] for name in SAMPLING & config.keys()}
        for name in config.keys() - SAMPLING - {"model"}:
            self._to.say((*path, "model_config", name), f"`{name}` cannot be set here", key=True)
        if "model" in config:
            found["model"] = self._to.model((*path, "model_config", "model"), config["model"])
        return found

    def _change(self, path: Path, item: Json, read: str) -> None:
        """Convert a change by a person: ask for it, then let the model apply it."""
        name = self._places[int(path[1])]
        wish = node_id(f"{self._ids[name]}_wish", self._ids.values())
        question = {"question": "What should be changed or added?", "show": read}
        self._nodes.append({"id": wish, "use": "human.ask", "with": question})
        self._model(path, item, read, wish=f"## wish\n\n{{{{ {wish}.answer }}}}")

    def _add(self, path: Path, node: Json) -> None:
        name = self._places[int(path[1])]
        self._nodes.append({"id": self._ids[name], **node})

    def _end(self) -> None:
        """Set the outputs of the workflow, each by its name; `text` is the last one."""
        given = {name: told for name, told in self._gives.items() if not told.startswith("inputs.")}
        outputs = {self._ids[name]: f"{{{{ {source} }}}}" for name, source in given.items()}
        if outputs and "text" not in outputs:
            outputs["text"] = list(outputs.values())[-1]
        document: Json = {"inputs": self._inputs} if self._inputs else {}
        self._to.document |= {**document, "graph": self._nodes, "outputs": outputs}
