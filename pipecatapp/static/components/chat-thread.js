import "./chat-turn.js"
import { h } from "../dom.js"
import { flame, icon } from "../icons.js"

const IDEAS = ["What can you do for me?", "Explain what a home lab is in two sentences", "Write three lines about a quiet evening by the fire"]

/** <chat-thread>: the turns of a conversation. Follows the newest text until one scrolls up. Tells "idea" with detail.text; its turns tell more. */
class ChatThread extends HTMLElement {
  #turns = []
  #follows = true
  #end = 0

  connectedCallback() {
    if (this.log) return
    this.log = h("div", { class: "thread-log", role: "log", "aria-label": "Conversation", "aria-live": "off", testid: "thread" })
    this.latest = h("button", { type: "button", class: "latest", hidden: true, onclick: () => this.#follow() }, icon("down"), "Newest")
    this.scroller = h("div", { class: "thread-scroll", tabindex: "0", role: "region", "aria-label": "Messages", onscroll: this.#scrolled }, this.log)
    this.append(this.scroller, this.latest)
    const follow = new ResizeObserver(() => this.#follows && this.#toEnd())
    for (const each of [this.log, this.scroller]) follow.observe(each)
  }

  /** Shows these turns; the ones already there are kept and only told what is new. */
  show(conversation) {
    const turns = conversation.turns
    if (this.conversation !== conversation) this.#clear(conversation)
    const first = turns.findIndex((turn, i) => this.#turns[i] !== turn)
    const kept = first < 0 ? turns.length : first
    for (const gone of [...this.log.querySelectorAll("chat-turn")].slice(kept)) gone.remove()
    if (turns.length > this.#turns.length || turns.at(-1)?.run === null) this.#follows = true
    for (const _ of turns.slice(kept)) this.log.append(h("chat-turn"))
    if (turns.length && this.log.firstChild?.matches(".welcome")) this.log.firstChild.remove()
    this.#turns = [...turns]
    const elements = this.log.querySelectorAll("chat-turn")
    turns.forEach((turn, i) => elements[i].show(turn, (...at) => conversation.attachmentAddress(...at)))
    this.#divide(conversation, elements)
    if (!turns.length && !this.log.children.length) this.log.append(this.#welcome())
  }

  /** Puts the focus on the switch between the versions of a turn. */
  focusVersions(run) {
    const at = this.#turns.findIndex((turn) => turn.run === run)
    this.log.querySelectorAll("chat-turn")[at]?.querySelector('[data-testid="versions"] button:enabled')?.focus()
  }

  /** Draws the line between what the model no longer sees and what it does. */
  #divide({ turns, unseen }, elements) {
    const first = elements[turns.findIndex((turn) => turn.run === unseen?.before)]
    if (!first) return this.unseen?.remove()
    this.unseen ??= h("p", { class: "thread-unseen", testid: "unseen" })
    const words = `Earlier messages are no longer seen by the model${unseen.partly ? ", the one above only in part" : ""}`
    if (this.unseen.textContent !== words) this.unseen.textContent = words
    if (first.previousElementSibling !== this.unseen) first.before(this.unseen)
  }

  #clear(conversation) {
    this.conversation = conversation
    this.#turns = []
    this.#follows = true
    this.log.replaceChildren()
  }

  #welcome() {
    const idea = (text) => h("button", { type: "button", class: "idea", onclick: () => this.dispatchEvent(new CustomEvent("idea", { detail: { text } })) }, text)
    return h("div", { class: "welcome" }, h("div", { class: "welcome-mark" }, flame()), h("h2", {}, "What is on your mind?"), h("p", {}, "What you write stays on your own machines, unless you ask a hosted model."), h("div", { class: "ideas" }, IDEAS.map(idea)))
  }

  #scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller
    // Text that has come since we went to the end is no scrolling of the reader's.
    this.#follows = scrollHeight - scrollTop - clientHeight < 48 || (this.#follows && scrollTop >= this.#end)
    this.latest.hidden = this.#follows
  }

  #follow() {
    this.#follows = true
    this.#toEnd()
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight
    this.#end = this.scroller.scrollTop
  }
}

customElements.define("chat-thread", ChatThread)
