import { post } from "../api.js"
import { h } from "../dom.js"
import { keepDraft } from "../drafts.js"
import { icon } from "../icons.js"
import { runAddress } from "../router.js"
import { filePicker } from "./file-picker.js"
import { problem } from "./notice.js"
import { schemaForm } from "./schema-form.js"

/**
 * A form that starts a run of what `named` names ({workflow} or {tool}), with inputs of this JSON Schema. A refused
 * input is told at its field where the server names it. Inputs and files are kept as drafts, under the name `draft`,
 * until the run has started. Each of `others` is one more button: {label, testid, act(inputs)}.
 */
export function startForm(named, schema, { title = "Start a run", label = "Start run", empty, others = [], draft = `start-${JSON.stringify(named)}` } = {}) {
  const drafts = { inputs: draft, files: `${draft}-files` }
  const form = schemaForm(schema, { empty, draft: drafts.inputs })
  const files = filePicker(drafts.files)
  const fault = h("div", {})
  const button = h("button", { type: "submit", class: "button primary", testid: "start" }, icon("play"), label)

  async function start(event) {
    event.preventDefault()
    fault.replaceChildren()
    const inputs = form.values()
    if (!inputs) return element.querySelector("[aria-invalid]").focus()
    button.disabled = true
    try {
      const { run } = await post("/api/runs", { ...named, inputs, files: await files.upload() })
      for (const each of Object.values(drafts)) keepDraft(each, "")
      location.hash = runAddress(run)
    } catch (error) {
      if (error.code === "invalid_inputs") form.tell(error.message)
      fault.replaceChildren(problem("The run was not started", error.message))
      element.querySelector("[aria-invalid]")?.focus()
    }
    button.disabled = false
  }

  async function instead({ act }) {
    fault.replaceChildren()
    const inputs = form.values()
    if (!inputs) return element.querySelector("[aria-invalid]").focus()
    try {
      await act(inputs)
    } catch (error) {
      if (error.code === "invalid_inputs") form.tell(error.message)
      fault.replaceChildren(problem("That did not work", error.message))
    }
  }

  const more = others.map((other) => h("button", { type: "button", class: "button", testid: other.testid, onclick: () => instead(other) }, other.label))
  const element = h("form", { class: "start-form pane", novalidate: true, onsubmit: start }, h("h2", {}, title), form.element, files.element, fault, h("div", { class: "row" }, button, more))
  return element
}
