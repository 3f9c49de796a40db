import { h } from "../dom.js"
import { openDialog } from "./dialog.js"

const WAIT = "" // as an input: only the order

/**
 * The operations of a wire between two nodes, or null if the person changes their mind. Where there is a choice of outputs
 * or inputs, a dialog asks.
 */
export async function wireOperations(from, to, tools, graph) {
  const outputs = outputsOf(from, tools, graph)
  const inputs = inputsOf(to, tools, from)
  const guess = guessed(outputs, inputs)
  const only = inputs.filter((each) => each.name !== WAIT)
  if (outputs.length === 1 && only.length === 1 && !only[0].used && to.path !== ":outputs") return [operation(from, outputs[0], to, only[0].name)]
  const output = select("wire-output", outputs.map((name) => [name, name || "the whole output"]), guess.output)
  const input = to.path === ":outputs" ? h("input", { id: "wire-input", testid: "wire-input", required: true, pattern: "[a-z][a-z0-9_]*", title: "Lower case letters, digits and _", value: guess.output || from.id }) : select("wire-input", inputs.map(({ name, used }) => [name, name === WAIT ? "nothing: only wait for it" : used ? `${name} (replaces its value)` : name]), guess.input)
  const content = h("div", { class: "fields" }, field("wire-output", `Output of ${from.id}`, output), field("wire-input", to.path === ":outputs" ? "Name of the output" : `Input of ${to.id}`, input))
  const chosen = await openDialog({ title: `Wire from ${from.id} to ${to.id}`, content, actions: [{ name: "wire", label: "Wire", kind: "primary" }], close: "Cancel" })
  return chosen === "wire" ? [operation(from, output.value, to, input.value)] : null
}

const operation = (from, output, to, input) => ({ op: "wire", from: from.path, output, to: to.path, input })
const field = (id, label, control) => h("div", { class: "field" }, h("label", { for: id }, label), control)
const select = (id, choices, chosen) => h("select", { id, testid: id }, choices.map(([value, words]) => h("option", { value, selected: value === chosen }, words)))

function outputsOf(node, tools, graph) {
  if (node.path === ":inputs") return Object.keys(node.value).length ? Object.keys(node.value) : [""]
  const inner = graph.nodes.filter((each) => each.parent === node.path).map((each) => each.id)
  const names = node.value.returns && typeof node.value.returns === "object" ? Object.keys(node.value.returns) : [...Object.keys(tools.get(node.use)?.outputs.properties ?? {}), ...inner]
  if (["for", "while", "until"].some((key) => key in node.value)) return ["", "all", "last", "count", ...names.map((name) => `last.${name}`)]
  return names.length === 1 ? names : [...names, ""]
}

function inputsOf(node, tools, from) {
  if (node.path === ":outputs") return [{ name: "text", used: false }, { name: WAIT }]
  const { properties = {}, required = [] } = tools.get(node.use)?.inputs ?? {}
  const names = Object.keys(properties).sort((a, b) => required.includes(b) - required.includes(a))
  const inputs = names.map((name) => ({ name, needed: required.includes(name), used: node.value.with?.[name] !== undefined }))
  return from.parent === node.parent && from.kind !== "end" ? [...inputs, { name: WAIT }] : inputs
}

/** The likely pair: fields of one name, else the first output and a required input, better one without a value. */
function guessed(outputs, inputs) {
  const free = inputs.filter((each) => !each.used && each.name !== WAIT)
  const pair = free.find((each) => outputs.includes(each.name))
  const output = pair?.name ?? (outputs.includes("text") ? "text" : outputs[0])
  return { output, input: (pair ?? free.find((each) => each.needed) ?? inputs.find((each) => each.needed) ?? free[0] ?? inputs[0])?.name ?? WAIT }
}
