import { h } from "../dom.js"
import { ticking } from "../events.js"
import { ago, duration, moment } from "../format.js"

/** <time-since at="2026-05-01T10:00:00Z">: "3 min ago", kept true; the moment itself is its tooltip, or stands below with [full]. */
class TimeSince extends HTMLElement {
  static observedAttributes = ["at"]
  #stop = () => {}

  connectedCallback() {
    this.#build()
    this.#stop = ticking(() => this.#show())
  }

  disconnectedCallback() {
    this.#stop()
  }

  attributeChangedCallback() {
    if (this.isConnected) this.#build()
  }

  #build() {
    const at = this.getAttribute("at")
    this.words = h("time", { datetime: at, title: new Date(at).toLocaleString() })
    const full = this.hasAttribute("full") && h("span", { class: "fine" }, moment(at))
    this.replaceChildren(...[this.words, full].filter(Boolean))
    this.#show()
  }

  #show() {
    const text = ago(this.getAttribute("at"))
    if (this.words.textContent !== text) this.words.textContent = text
  }
}

/** <time-taken started="…" seconds="3.2">: how long something took, or, without seconds, how long it has been going on. */
class TimeTaken extends HTMLElement {
  static observedAttributes = ["started", "seconds"]
  #stop = () => {}

  connectedCallback() {
    this.#show()
    this.#stop = ticking(() => this.hasAttribute("seconds") || this.#show())
  }

  disconnectedCallback() {
    this.#stop()
  }

  attributeChangedCallback() {
    this.#show()
  }

  #show() {
    const started = Date.parse(this.getAttribute("started"))
    const seconds = this.hasAttribute("seconds") ? Number(this.getAttribute("seconds")) : Math.max(0, (Date.now() - started) / 1000)
    const text = duration(seconds)
    if (this.textContent !== text) this.textContent = text
  }
}

customElements.define("time-since", TimeSince)
customElements.define("time-taken", TimeTaken)
