import { h } from "../dom.js"
import { draftOf, keepDraft } from "../drafts.js"

const DRAFT = "trigger"
const SIGNATURES = [
  ["standard", "Standard Webhooks: the request is signed"],
  ["github", "As GitHub, Gitea and Forgejo sign"],
  ["bearer", "A bearer token, for devices that cannot sign"],
]

/**
 * The fields of a new trigger: {element, values(), refuse(words), accepted()}. `workflows` are those that can be
 * started. `values()` gives {id, settings}. What is typed is kept as a draft until `accepted()`.
 */
export function triggerForm(workflows) {
  const before = JSON.parse(draftOf(DRAFT) || "{}")
  const keep = () => keepDraft(DRAFT, JSON.stringify(Object.fromEntries(typed().map((each) => [each.id, each.type === "checkbox" ? each.checked : each.value]))))
  const id = text("trigger-id", { placeholder: "doorbell", autofocus: true })
  const kind = choice("trigger-kind", [["webhook", "A webhook"], ["folder", "A new file in a folder"]])
  const workflow = choice("trigger-workflow", workflows.map((each) => [each.id, each.id]))
  const signature = choice("trigger-signature", SIGNATURES)
  const path = text("trigger-path", { placeholder: "/home/anna/scans" })
  const pattern = text("trigger-pattern", { value: "*" })
  const existing = h("input", { type: "checkbox", id: "trigger-existing", testid: "trigger-existing" })
  const fault = h("p", { class: "fault", role: "alert", hidden: true, testid: "trigger-fault" })
  const webhook = h("div", { class: "fields" }, field("Signature", signature, "The secret is made when the trigger is saved, and shown once."))
  const folder = h("div", { class: "fields" }, field("Folder", path, "On the machine of the agent. The run is given a copy of the file."), field("Names", pattern, "Such as *.pdf. Hidden files are left out."), h("div", { class: "field tick" }, existing, h("label", { for: existing.id }, "Also take the files that are there now")))
  const inputs = h("div", { class: "fields" })
  const element = h("div", { class: "dialog-content fields", oninput: keep, onchange: show }, field("Name", id, "Lower case letters, digits and hyphens."), field("Starts with", kind), webhook, folder, field("Workflow", workflow), inputs, fault)

  function show() {
    webhook.hidden = kind.value !== "webhook"
    folder.hidden = kind.value !== "folder"
    const chosen = workflows.find((each) => each.id === workflow.value)
    const names = Object.keys(chosen?.inputs.properties ?? {})
    if (inputs.dataset.of !== `${kind.value} ${workflow.value}`) {
      inputs.dataset.of = `${kind.value} ${workflow.value}`
      const hint = kind.value === "webhook" ? "A text, or {{ body.name }}, {{ query.name }} or {{ headers.name }}." : "A text, or {{ file.name }}, {{ file.size }} or {{ file.folder }}."
      inputs.replaceChildren(...names.map((name) => field(name.replaceAll("_", " "), h("textarea", { id: `trigger-input-${name}`, rows: 1, dataset: { name }, testid: `trigger-input-${name}` }), `${chosen.inputs.required?.includes(name) ? "" : "Optional. "}${hint}`)))
    }
  }

  const typed = () => [...element.querySelectorAll("input, select, textarea")]

  function restore() {
    for (const each of typed()) if (before[each.id] !== undefined) each[each.type === "checkbox" ? "checked" : "value"] = before[each.id]
  }

  function values() {
    const given = [...inputs.querySelectorAll("textarea")].filter((each) => each.value.trim()).map((each) => [each.dataset.name, valueOf(each.value.trim(), workflows.find((one) => one.id === workflow.value).inputs.properties[each.dataset.name])])
    const since = existing.checked ? null : new Date().toISOString()
    const cause = kind.value === "webhook" ? { webhook: { signature: signature.value } } : { folder: { path: path.value.trim(), pattern: pattern.value.trim() || "*", since } }
    return { id: id.value.trim(), settings: { workflow: workflow.value, inputs: Object.fromEntries(given), ...cause } }
  }

  function refuse(words) {
    fault.textContent = words
    fault.hidden = !words
  }

  restore()
  show()
  restore() // the inputs of the workflow, which are there now
  return { element, values, refuse, accepted: () => keepDraft(DRAFT, "") }
}

/** A value of another type than text is read as JSON; an expression is left as it is, because the run gives it a type. */
function valueOf(words, { type }) {
  if (type === "string" || /\{\{|\{%/.test(words)) return words
  try {
    return JSON.parse(words)
  } catch {
    return words // the server names the type that it needs
  }
}

const text = (id, more) => h("input", { type: "text", id, autocomplete: "off", testid: id, ...more })
const choice = (id, options) => h("select", { id, testid: id }, options.map(([value, words]) => h("option", { value }, words)))

function field(label, control, hint) {
  if (hint) control.setAttribute("aria-describedby", `${control.id}-hint`)
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint && h("p", { class: "hint", id: `${control.id}-hint` }, hint))
}
