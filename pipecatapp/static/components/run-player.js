import { h } from "../dom.js"
import { followRun } from "../events.js"
import { duration } from "../format.js"
import { icon } from "../icons.js"
import { asOf, eventWords } from "../replay.js"

const SHORTEST = 150 // milliseconds between two events while it plays, whatever lay between them
const LONGEST = 900

/**
 * <run-player>: plays, steps and rewinds the events of a run. `open(state)` reads them, `close()` returns to the present.
 * `past` is the state at the chosen event, null for the present; `event` is that event. Tells "rewind" when they are others.
 */
class RunPlayer extends HTMLElement {
  past = null
  event = null
  #state = null
  #events = []
  #count = 0
  #timer = 0
  #stop = () => {}

  connectedCallback() {
    const button = (name, label, work) => h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, testid: `player-${name}`, onclick: work }, icon(name))
    this.play = button("play", "Play", () => (this.#timer ? this.#pause() : this.#play()))
    this.slider = h("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Event", testid: "player-slider", oninput: () => this.#pause() || this.#go(Number(this.slider.value)) })
    this.words = h("output", { class: "player-words", testid: "player-event" })
    this.time = h("span", { class: "player-time", testid: "player-time" })
    this.setAttribute("role", "group")
    this.setAttribute("aria-label", "Replay")
    this.dataset.testid = "player"
    this.replaceChildren(h("div", { class: "player-buttons" }, button("rewind", "To the beginning", () => this.#pause() || this.#go(0)), button("back", "One event back", () => this.#pause() || this.#go(this.#count - 1)), this.play, button("forward", "One event on", () => this.#pause() || this.#go(this.#count + 1))), this.slider, h("p", { class: "player-line" }, this.words, this.time))
  }

  disconnectedCallback() {
    this.close()
  }

  open(state) {
    this.close()
    this.#state = state
    this.hidden = false
    this.#stop = followRun(state.id, { onEvent: this.#hear, onWords: () => {}, onEnd: () => {} })
  }

  close() {
    this.#stop()
    this.#pause()
    this.#stop = () => {}
    this.#events = []
    this.#state = null
    this.#count = 0
    this.hidden = true
    this.past = this.event = null
  }

  /** Where the chosen event lies in time; null in the present. */
  get at() {
    return this.past && (this.event?.at ?? this.#state.view.started)
  }

  #hear = (event) => {
    const atEnd = this.#count === this.#events.length
    this.#events.push(event)
    this.slider.max = this.#events.length
    if (atEnd && !this.#timer) this.#count = this.#events.length
    this.#soon ||= setTimeout(() => {
      this.#soon = 0
      if (this.#state) this.#show()
    }, 40)
  }
  #soon = 0

  #play() {
    if (this.#count >= this.#events.length) this.#go(0)
    this.#mark("pause", "Pause")
    this.#next()
  }

  #next() {
    const [from, to] = [this.#events[this.#count - 1], this.#events[this.#count]]
    if (!to) return this.#pause()
    const gap = from ? Date.parse(to.at) - Date.parse(from.at) : 0
    this.#timer = setTimeout(() => {
      this.#go(this.#count + 1)
      this.#next()
    }, Math.min(LONGEST, Math.max(SHORTEST, gap)))
  }

  #pause() {
    clearTimeout(this.#timer)
    this.#timer = 0
    if (this.play) this.#mark("play", "Play")
  }

  #mark(name, label) {
    this.play.replaceChildren(icon(name))
    this.play.ariaLabel = this.play.title = label
  }

  #go(count) {
    this.#count = Math.max(0, Math.min(this.#events.length, count))
    this.#show()
  }

  #show() {
    const { length } = this.#events
    this.event = this.#events[this.#count - 1] ?? null
    this.past = this.#count < length ? asOf(this.#state, this.#events, this.#count) : null
    this.slider.value = this.#count
    const words = eventWords(this.event)
    this.slider.setAttribute("aria-valuetext", `Event ${this.#count} of ${length}: ${words}`)
    this.words.textContent = words
    const since = this.event ? (Date.parse(this.event.at) - Date.parse(this.#state.view.started)) / 1000 : 0
    this.time.textContent = `${this.#count} of ${length} · ${duration(Math.max(0, since))}`
    this.dispatchEvent(new Event("rewind"))
  }
}

customElements.define("run-player", RunPlayer)
