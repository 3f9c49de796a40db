import "./question-form.js"
import "./rich-text.js"
import { h } from "../dom.js"
import { duration, ENDED } from "../format.js"
import { flame, icon } from "../icons.js"
import { readAloud } from "../talk/aloud.js"
import { turnChips } from "./attachment-chips.js"
import { copyButton } from "./copy-button.js"
import { problem } from "./notice.js"
import { editQuestion } from "./turn-edit.js"

/**
 * <chat-turn>: one question and its answer. `show(turn)`; tells "again" (detail {turn, text}: the question once more, or an
 * edited one; who handles it sets detail.sent, a promise), "version" (detail.run: another version of it), "branch" (detail.run),
 * "stop", "answered" and "inspect" (detail.run).
 */
class ChatTurn extends HTMLElement {
  #told = {}

  show(turn, address) {
    if (!this.answer) this.#build(turn)
    this.turn = turn
    const attached = JSON.stringify([turn.attachments, turn.run])
    if (turn.attachments?.length && this.#told.attached !== attached) this.attached.replaceChildren(turnChips(turn.attachments, (i) => address(turn, i)))
    this.answer.show(turn.text, { complete: ENDED.has(turn.state) })
    const foot = JSON.stringify([turn.state, turn.run, turn.versions, turn.speed])
    if (this.#told.foot !== foot) this.#foot(turn)
    const questions = JSON.stringify(turn.questions)
    if (this.#told.questions !== questions) this.#ask(turn)
    this.thinking.hidden = turn.state !== "running" || Boolean(turn.text)
    this.edit.disabled = !ENDED.has(turn.state)
    this.dataset.state = turn.state
    this.#told = { foot, questions, attached }
  }

  #build(turn) {
    this.dataset.testid = "turn"
    this.answer = h("rich-text", { testid: "answer" })
    this.thinking = h("p", { class: "thinking", hidden: true }, h("span", { class: "off-screen" }, "Thinking"), h("i"), h("i"), h("i"))
    this.answered = h("dl", { class: "turn-asked", hidden: true, testid: "answered" })
    this.questions = h("run-questions", { hidden: true })
    this.foot = h("footer", { class: "turn-foot" })
    this.edit = h("button", { type: "button", class: "icon-button small turn-edit-button", "aria-label": "Edit your question", title: "Edit your question", testid: "edit", onclick: this.#edit }, icon("edit"))
    this.asked = h("div", { class: "turn-user", testid: "question" }, h("span", { class: "off-screen" }, "You asked: "), turn.user)
    this.attached = h("div", { class: "turn-attached" })
    this.question = h("div", { class: "turn-question" }, this.edit, this.asked)
    const body = h("div", { class: "turn-body" }, h("span", { class: "off-screen" }, "Hearth answered: "), this.answered, this.answer, this.thinking, this.questions, this.foot)
    this.append(this.attached, this.question, h("div", { class: "turn-answer" }, h("div", { class: "turn-mark" }, flame()), body))
  }

  #edit = async () => {
    this.edit.hidden = this.asked.hidden = true
    await editQuestion(this.turn.user, this.question, `edit-${this.turn.run}`, (text) => this.#again(text))
    this.edit.hidden = this.asked.hidden = false
    this.edit.focus()
  }

  /** Open questions are forms; the others show what was answered. */
  #ask({ run, questions }) {
    const closed = questions.filter((each) => !each.open)
    this.questions.show(run, questions.filter((each) => each.open))
    this.answered.hidden = !closed.length
    this.answered.replaceChildren(...closed.flatMap(({ question, answer }) => [h("dt", {}, question.text), answer === null ? h("dd", { class: "quiet" }, "Not answered") : h("dd", {}, h("span", { class: "off-screen" }, "You answered: "), words(answer))]))
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }))
  }

  /** Resolves when the server has taken the question. */
  #again(text) {
    const detail = { turn: this.turn, text, sent: null }
    this.#tell("again", detail)
    return detail.sent
  }

  /** Asks once more what was asked; why that was refused is said beside the buttons. */
  #repeat = async () => {
    this.foot.inert = true
    try {
      await this.#again(this.turn.user)
    } catch (error) {
      this.foot.append(h("span", { class: "fault fine", role: "alert", testid: "not-again" }, error.message))
    }
    this.foot.inert = false
  }

  #foot(turn) {
    const held = this.foot.contains(document.activeElement) ? document.activeElement.dataset.testid : null
    this.foot.replaceChildren(...this.#actions(turn).filter(Boolean))
    if (held) this.foot.querySelector(`[data-testid="${held}"]`)?.focus()
  }

  #actions(turn) {
    const { run, state } = turn
    const versions = this.#versions(turn)
    if (state === "running") return [versions]
    const steps = run && h("button", { type: "button", class: "foot-button", testid: "show-run", onclick: () => this.#tell("inspect", { run }) }, icon("graph"), "Steps")
    if (state === "failed") {
      const again = h("button", { type: "button", class: "button", testid: "again", onclick: this.#repeat }, icon("retry"), "Try again")
      return [problem(turn.text ? "The answer broke off" : "No answer this time", turn.error, h("div", { class: "row" }, again, steps, versions))]
    }
    const stop = state === "waiting" && h("button", { type: "button", class: "foot-button", testid: "stop-run", onclick: () => this.#tell("stop") }, h("span", { class: "stop-square" }), "Stop")
    const said = { cancelled: "Stopped", waiting: "Waiting for your answer" }[state] ?? [duration(turn.seconds), turn.speed && `${turn.speed < 10 ? turn.speed.toFixed(1) : Math.round(turn.speed)} tokens/s`].filter(Boolean).join(" · ")
    const again = ENDED.has(state) && small("again", "retry", "Answer once more", this.#repeat)
    const branch = ENDED.has(state) && small("branch", "branch", "Continue from here in a new conversation", () => this.#tell("branch", { run }))
    return [versions, turn.text && copyButton(() => turn.text, "Copy answer"), turn.text && ENDED.has(state) && aloudButton(() => turn.text), again, branch, steps, stop, said && h("span", { class: "fine turn-facts", testid: "facts", title: turn.model && `Answered by ${turn.model}` }, said)]
  }

  /** The switch between the versions of a turn; nothing where there is one. */
  #versions({ run, versions = [] }) {
    const at = versions.indexOf(run)
    if (versions.length < 2 || at < 0) return null
    const step = (name, by, label) => h("button", { type: "button", class: "icon-button small", "aria-label": label, title: label, testid: name, disabled: !versions[at + by], onclick: () => this.#tell("version", { run: versions[at + by] }) }, icon(by < 0 ? "back" : "forward"))
    return h("div", { class: "turn-versions", role: "group", "aria-label": "Versions of this turn", testid: "versions" }, step("earlier", -1, "Earlier version"), h("span", {}, `${at + 1} of ${versions.length}`), step("later", 1, "Later version"))
  }
}

const small = (testid, name, label, onclick) => h("button", { type: "button", class: "icon-button small", "aria-label": label, title: label, testid, onclick }, icon(name))

/** Reads the answer aloud, and stops when it is pressed again. */
function aloudButton(text) {
  let reading = null
  const show = (name, label) => {
    button.replaceChildren(icon(name))
    button.title = label
    button.setAttribute("aria-label", label)
  }
  const button = h("button", { type: "button", class: "icon-button small", testid: "aloud" })
  button.addEventListener("click", async () => {
    if (reading) return reading.stop()
    reading = readAloud(text())
    show("stop", "Stop reading aloud")
    try {
      await reading.done
    } catch (error) {
      button.after(h("span", { class: "fault fine", role: "alert", testid: "not-aloud" }, error.message))
    }
    reading = null
    show("speaker", "Read aloud")
  })
  show("speaker", "Read aloud")
  return button
}

const words = (answer) => (typeof answer === "string" ? answer : typeof answer === "boolean" ? (answer ? "yes" : "no") : JSON.stringify(answer))

customElements.define("chat-turn", ChatTurn)
