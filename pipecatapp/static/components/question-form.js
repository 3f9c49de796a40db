import { post } from "../api.js"
import { h } from "../dom.js"
import { keepDraft, keepField } from "../drafts.js"
import { jsonView } from "./json-view.js"
import { problem } from "./notice.js"

/** What a person writes for a type of the documents' short-hand; what is not here is written as JSON. */
const READ = {
  text: (words) => words,
  integer: number,
  number: number,
  boolean: (words) => words === "yes",
  any: (words) => words,
}

function number(words) {
  const value = Number(words)
  if (!words || Number.isNaN(value)) throw new Error("Write a number.")
  return value
}

const kindOf = (question) => question.returns ?? "text"
const choicesOf = (question) => (kindOf(question) === "boolean" ? ["yes", "no"] : (question.choices ?? []))

/** The value of an answer in words; throws an Error that says what would fit. */
function answerOf(question, words) {
  const choices = choicesOf(question)
  const choice = choices.find((each) => each.toLowerCase() === words.toLowerCase())
  if (choices.length && !choice) throw new Error(`Answer with one of these: ${choices.join(", ")}.`)
  if (question.choices?.length) return choice
  try {
    return (READ[kindOf(question)] ?? JSON.parse)(choice ?? words)
  } catch (error) {
    throw error instanceof SyntaxError ? new Error("Write it as JSON.") : error
  }
}

/** Answers a question of a run with the words of a person. Rejects with an Error that says what is wrong. */
export async function answerQuestion(run, path, question, words) {
  await post(`/api/runs/${encodeURIComponent(run)}/answer`, { path, value: answerOf(question, words) })
}

/** The question that a step of a run waits with, and the answer to it. Tells "answered". */
function questionForm(run, path, question) {
  const choices = choicesOf(question)
  const draft = `answer-${run}-${path}`
  const fault = h("div", {})
  const buttons = () => [...form.querySelectorAll("button")]
  const answer = async (words) => {
    buttons().forEach((each) => (each.disabled = true))
    try {
      await answerQuestion(run, path, question, words)
      keepDraft(draft, "")
      form.dispatchEvent(new Event("answered", { bubbles: true }))
    } catch (error) {
      fault.replaceChildren(problem("That answer isn't valid", error.message))
    }
    buttons().forEach((each) => (each.disabled = false))
  }
  const choice = (words) => h("button", { type: "button", class: "button", testid: "choice", onclick: () => answer(words) }, words)
  const field = h("textarea", { rows: 2, "aria-label": "Your answer", testid: "answer-text" })
  keepField(field, draft)
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

/**
 * <run-questions>: the open questions of a run as forms, wherever the run is shown. `show(run, questions)` with {path, question};
 * forms are kept by path, so that a half-written answer survives live changes. Tells "answered".
 */
class RunQuestions extends HTMLElement {
  show(run, questions) {
    const kept = new Map([...this.children].map((form) => [form.dataset.path, form]))
    const forms = questions.map(({ path, question }) => kept.get(path) ?? questionForm(run, path, question))
    for (const form of kept.values()) if (!forms.includes(form)) form.remove()
    for (const form of forms) if (form.parentNode !== this) this.append(form)
    this.hidden = !forms.length
  }
}

customElements.define("run-questions", RunQuestions)
