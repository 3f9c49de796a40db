import { post } from "../api.js"
import { h } from "../dom.js"
import { jsonView } from "./json-view.js"
import { problem } from "./notice.js"

/** What a person writes for a type of the documents' short-hand; what is not here is written as JSON. */
const READ = {
  text: (words) => words,
  integer: Number,
  number: Number,
  boolean: (words) => words === "yes",
  any: (words) => words,
}

/** The question that a step of a run waits with, and the answer to it. Tells "answered". */
export function questionForm(run, path, question) {
  const kind = question.returns ?? "text"
  const choices = kind === "boolean" ? ["yes", "no"] : question.choices
  const read = choices.length && kind !== "boolean" ? READ.text : (READ[kind] ?? JSON.parse)
  const fault = h("div", {})
  const buttons = () => [...form.querySelectorAll("button")]
  const answer = async (words) => {
    buttons().forEach((each) => (each.disabled = true))
    try {
      await post(`/api/runs/${encodeURIComponent(run)}/answer`, { path, value: read(words) })
      form.dispatchEvent(new Event("answered", { bubbles: true }))
    } catch (error) {
      fault.replaceChildren(problem("That is no answer", error instanceof SyntaxError ? "Write it as JSON." : error.message))
    }
    buttons().forEach((each) => (each.disabled = false))
  }
  const choice = (words) => h("button", { type: "button", class: "button", testid: "choice", onclick: () => answer(words) }, words)
  const field = h("textarea", { rows: 2, "aria-label": "Your answer", testid: "answer-text" })
  const send = h("button", { type: "submit", class: "button primary", testid: "answer-send" }, "Answer")
  const submit = (event) => {
    event.preventDefault()
    if (!choices.length) answer(field.value.trim())
  }
  const form = h(
    "form",
    { class: "pane question", "aria-label": "A question for you", testid: "question-form", dataset: { path }, onsubmit: submit },
    h("h2", {}, question.text),
    question.show !== null && question.show !== undefined && jsonView(question.show),
    choices.length ? h("div", { class: "row" }, choices.map(choice)) : [field, h("div", { class: "row" }, send)],
    fault,
  )
  return form
}
