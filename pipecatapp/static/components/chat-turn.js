import "./question-form.js"
import "./rich-text.js"
import { h } from "../dom.js"
import { duration, ENDED } from "../format.js"
import { flame, icon } from "../icons.js"
import { copyButton } from "./copy-button.js"
import { problem } from "./notice.js"

/** <chat-turn>: one question and its answer. `show(turn)`; tells "retry", "stop", "answered" and "inspect" (with detail.run). */
class ChatTurn extends HTMLElement {
  #told = {}

  show(turn) {
    if (!this.answer) this.#build(turn)
    this.answer.show(turn.text, { complete: ENDED.has(turn.state) })
    if (this.#told.state !== turn.state || this.#told.run !== turn.run) this.#foot(turn)
    const questions = JSON.stringify(turn.questions)
    if (this.#told.questions !== questions) this.#ask(turn)
    this.thinking.hidden = turn.state !== "running" || Boolean(turn.text)
    this.dataset.state = turn.state
    this.#told = { state: turn.state, run: turn.run, questions }
  }

  #build(turn) {
    this.dataset.testid = "turn"
    this.answer = h("rich-text", { testid: "answer" })
    this.thinking = h("p", { class: "thinking", hidden: true }, h("span", { class: "off-screen" }, "Thinking"), h("i"), h("i"), h("i"))
    this.answered = h("dl", { class: "turn-asked", hidden: true, testid: "answered" })
    this.questions = h("run-questions", { hidden: true })
    this.foot = h("footer", { class: "turn-foot" })
    const asked = h("div", { class: "turn-user", testid: "question" }, h("span", { class: "off-screen" }, "You asked: "), turn.user)
    const body = h("div", { class: "turn-body" }, h("span", { class: "off-screen" }, "Hearth answered: "), this.answered, this.answer, this.thinking, this.questions, this.foot)
    this.append(asked, h("div", { class: "turn-answer" }, h("div", { class: "turn-mark" }, flame()), body))
  }

  /** Open questions are forms; the others show what was answered. */
  #ask({ run, questions }) {
    const closed = questions.filter((each) => !each.open)
    this.questions.show(run, questions.filter((each) => each.open))
    this.answered.hidden = !closed.length
    this.answered.replaceChildren(...closed.flatMap(({ question, answer }) => [h("dt", {}, question.text), answer === null ? h("dd", { class: "quiet" }, "Not answered") : h("dd", {}, h("span", { class: "off-screen" }, "You answered: "), words(answer))]))
  }

  #foot(turn) {
    const inspect = () => this.dispatchEvent(new CustomEvent("inspect", { detail: { run: turn.run }, bubbles: true }))
    const steps = turn.run && h("button", { type: "button", class: "foot-button", testid: "show-run", onclick: inspect }, icon("graph"), "Steps")
    if (turn.state === "running") return this.foot.replaceChildren()
    const retry = () => this.dispatchEvent(new Event("retry", { bubbles: true }))
    const again = h("button", { type: "button", class: "button", onclick: retry }, icon("retry"), "Try again")
    if (turn.state === "failed") return this.foot.replaceChildren(problem(turn.text ? "The answer broke off" : "No answer this time", turn.error, h("div", { class: "row" }, again, steps)))
    const stop = turn.state === "waiting" && h("button", { type: "button", class: "foot-button", testid: "stop-run", onclick: () => this.dispatchEvent(new Event("stop", { bubbles: true })) }, h("span", { class: "stop-square" }), "Stop")
    const state = { cancelled: "Stopped", waiting: "Waiting for your answer" }[turn.state] ?? duration(turn.seconds)
    const copy = turn.text && copyButton(() => turn.text, "Copy answer")
    this.foot.replaceChildren(...[copy, steps, stop, state && h("span", { class: "fine" }, state)].filter(Boolean))
  }
}

const words = (answer) => (typeof answer === "string" ? answer : typeof answer === "boolean" ? (answer ? "yes" : "no") : JSON.stringify(answer))

customElements.define("chat-turn", ChatTurn)
