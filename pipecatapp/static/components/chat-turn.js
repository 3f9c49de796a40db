import "./rich-text.js"
import { h } from "../dom.js"
import { duration } from "../format.js"
import { flame, icon } from "../icons.js"
import { copyButton } from "./copy-button.js"
import { problem } from "./notice.js"

/** <chat-turn>: one question and its answer. `show(turn)`; tells "retry" and "inspect" (with detail.run). */
class ChatTurn extends HTMLElement {
  #told = {}

  show(turn) {
    if (!this.answer) this.#build(turn)
    if (this.#told.text !== turn.text) this.answer.text = turn.text
    if (this.#told.state !== turn.state || this.#told.run !== turn.run) this.#foot(turn)
    this.thinking.hidden = turn.state !== "running" || Boolean(turn.text)
    this.dataset.state = turn.state
    this.#told = { text: turn.text, state: turn.state, run: turn.run }
  }

  #build(turn) {
    this.dataset.testid = "turn"
    this.answer = h("rich-text", { testid: "answer" })
    this.thinking = h("p", { class: "thinking", hidden: true }, h("span", { class: "off-screen" }, "Thinking"), h("i"), h("i"), h("i"))
    this.foot = h("footer", { class: "turn-foot" })
    const asked = h("div", { class: "turn-user", testid: "question" }, h("span", { class: "off-screen" }, "You asked: "), turn.user)
    const answer = h("div", { class: "turn-answer" }, h("div", { class: "turn-mark" }, flame()), h("div", { class: "turn-body" }, h("span", { class: "off-screen" }, "Hearth answered: "), this.thinking, this.answer, this.foot))
    this.append(asked, answer)
  }

  #foot(turn) {
    const inspect = () => this.dispatchEvent(new CustomEvent("inspect", { detail: { run: turn.run }, bubbles: true }))
    const steps = turn.run && h("button", { type: "button", class: "foot-button", testid: "show-run", onclick: inspect }, icon("graph"), "Steps")
    if (turn.state === "running") return this.foot.replaceChildren()
    const retry = () => this.dispatchEvent(new Event("retry", { bubbles: true }))
    const again = h("button", { type: "button", class: "button", onclick: retry }, icon("retry"), "Try again")
    if (turn.state === "failed") return this.foot.replaceChildren(problem(turn.text ? "The answer broke off" : "No answer this time", turn.error, h("div", { class: "row" }, again, steps)))
    const words = turn.state === "cancelled" ? "Stopped" : duration(turn.seconds)
    const copy = turn.text && copyButton(() => turn.text, "Copy answer")
    this.foot.replaceChildren(...[copy, steps, words && h("span", { class: "fine" }, words)].filter(Boolean))
  }
}

customElements.define("chat-turn", ChatTurn)
