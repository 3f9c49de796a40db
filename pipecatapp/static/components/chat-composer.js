import { h } from "../dom.js"
import { icon } from "../icons.js"

const DRAFT = "hearth.draft"

/** <chat-composer>: where one writes. Tells "say" with detail.text, and "stop". The draft outlives the page. */
class ChatComposer extends HTMLElement {
  connectedCallback() {
    if (this.field) return
    this.field = h("textarea", { id: "say", rows: 1, "aria-label": "Your message", "placeholder": "Ask Hearth…", enterkeyhint: "send", testid: "composer", oninput: this.#grow, onkeydown: this.#key })
    this.button = h("button", { type: "submit", class: "send", testid: "send" })
    this.form = h("form", { class: "composer", onsubmit: this.#submit }, this.field, this.button)
    this.append(this.form)
    this.field.value = sessionStorage.getItem(DRAFT) ?? ""
    this.busy = false
    requestAnimationFrame(this.#grow)
  }

  set busy(busy) {
    if (this.dataset.busy === String(busy)) return
    this.dataset.busy = busy
    this.button.replaceChildren(busy ? h("span", { class: "stop-square" }) : icon("send"))
    this.button.setAttribute("aria-label", busy ? "Stop answering" : "Send")
    this.button.title = busy ? "Stop answering" : "Send"
    this.#ready()
  }

  fill(text) {
    this.field.value = text
    this.#grow()
    this.field.focus()
  }

  #grow = () => {
    this.field.style.height = "auto"
    this.field.style.height = `${Math.min(this.field.scrollHeight, 200)}px`
    sessionStorage.setItem(DRAFT, this.field.value)
    this.#ready()
  }

  #ready() {
    this.button.disabled = this.dataset.busy !== "true" && !this.field.value.trim()
  }

  #key = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    if (this.dataset.busy !== "true") this.form.requestSubmit()
  }

  #submit = (event) => {
    event.preventDefault()
    if (this.dataset.busy === "true") return this.dispatchEvent(new Event("stop"))
    const text = this.field.value.trim()
    if (!text) return
    this.fill("")
    this.dispatchEvent(new CustomEvent("say", { detail: { text } }))
  }
}

customElements.define("chat-composer", ChatComposer)
