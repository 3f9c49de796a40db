import { h } from "../dom.js"
import { icon } from "../icons.js"
import { runAddress } from "../router.js"

/** <talk-transcript>: what was said, each answer with its run. `told(message)` takes what the server tells of a conversation. */
class TalkTranscript extends HTMLElement {
  #turns = new Map()
  #heard = null

  connectedCallback() {
    if (this.role) return
    this.role = "log"
    this.tabIndex = 0
    this.setAttribute("aria-label", "Transcript")
    this.clear()
  }

  clear() {
    this.#turns.clear()
    this.#heard = null
    this.replaceChildren(h("p", { class: "talk-nothing quiet" }, "The transcript appears here."))
  }

  told(message) {
    this.#TOLD[message.type]?.(message)
    if (message.type in this.#TOLD) this.scrollTo(0, this.scrollHeight)
  }

  #TOLD = {
    heard: ({ text }) => this.#hear(text),
    dismissed: () => this.#unhear(),
    asked: ({ run, text }) => this.#ask(run, text),
    words: ({ run, text }) => this.#turns.get(run)?.words.append(text),
    interrupted: () => this.#cut("cut"),
    trouble: ({ part }) => part === "model" && this.#cut("failed"),
    spoken: () => this.#done(),
  }

  /** Part of a turn that is not over: it stands here until the whole turn does. */
  #hear(text) {
    if (!this.#heard) this.#add((this.#heard = h("p", { class: "talk-person talk-heard", testid: "talk-heard" })))
    this.#heard.append(this.#heard.textContent ? " " : "", text)
  }

  #unhear() {
    this.#heard?.remove()
    this.#heard = null
  }

  #ask(run, text) {
    this.#unhear()
    this.#done()
    const words = h("p", { class: "talk-answer", testid: "talk-answer" })
    const person = h("p", { class: "talk-person", testid: "talk-person" }, text)
    const link = h("a", { class: "talk-run", href: runAddress(run), testid: "talk-run" }, icon("graph"), "Run")
    const element = h("div", { class: "talk-turn", dataset: { run, now: "" } }, person, words, h("p", { class: "talk-foot" }, link))
    this.#turns.set(run, { element, words })
    this.#add(element)
  }

  /** The answer that is written or spoken now ends here: the person spoke over it, or it failed. */
  #cut(how) {
    const now = this.querySelector("[data-now]")
    if (now) now.dataset[how] = ""
    this.#done()
  }

  #done() {
    for (const { element } of this.#turns.values()) delete element.dataset.now
  }

  #add(element) {
    this.querySelector(".talk-nothing")?.remove()
    this.append(element)
  }
}

customElements.define("talk-transcript", TalkTranscript)
