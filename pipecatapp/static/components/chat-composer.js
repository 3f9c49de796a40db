import { h } from "../dom.js"
import { icon } from "../icons.js"

const DRAFT = "hearth.draft"

/**
 * <chat-composer>: where one writes. Tells "say" with detail.text, and "stop". The draft outlives the page: it is kept until
 * somebody calls `accepted()`, because what was said may not have arrived; `refused(text, reason)` gives it back.
 */
class ChatComposer extends HTMLElement {
  connectedCallback() {
    if (this.field) return
    this.field = h("textarea", { id: "say", rows: 1, "aria-label": "Your message", "placeholder": "Ask Hearth…", enterkeyhint: "send", testid: "composer", oninput: this.#grow, onkeydown: this.#key })
    this.button = h("button", { type: "submit", class: "send", testid: "send" })
    this.form = h("form", { class: "composer", onsubmit: this.#submit }, this.field, this.button)
    this.fault = h("p", { class: "fault composer-fault", role: "alert", testid: "not-sent", hidden: true })
    this.away = h("p", { class: "fine composer-fault", role: "status", hidden: true })
    this.append(this.fault, this.away, this.form)
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

  /** What the field is for now: a message, or the answer to a question. */
  set asks(question) {
    this.field.placeholder = question ? "Answer the question…" : "Ask Hearth…"
    this.field.setAttribute("aria-label", question ? "Your answer" : "Your message")
  }

  /** Why the conversation cannot be read now; null when it can. */
  set trouble(reason) {
    this.away.textContent = reason ?? ""
    this.away.hidden = !reason || !this.fault.hidden
  }

  fill(text) {
    this.field.value = text
    this.#grow()
    this.field.focus()
  }

  accepted() {
    if (!this.field.value) forgetDraft()
  }

  refused(text, reason) {
    if (!this.field.value) this.fill(text)
    this.fault.textContent = reason
    this.fault.hidden = false
  }

  /** Forgets a draft that the server has, though its answer was lost on the way. */
  arrived(text) {
    if (this.field.value.trim() === text) this.fill("")
  }

  #grow = () => {
    this.#fit()
    this.fault.hidden = true
    sessionStorage.setItem(DRAFT, this.field.value)
    this.#ready()
  }

  #fit() {
    this.field.style.height = "auto"
    this.field.style.height = `${Math.min(this.field.scrollHeight, 200)}px`
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
    this.field.value = ""
    this.fault.hidden = true
    this.#fit()
    this.#ready()
    this.dispatchEvent(new CustomEvent("say", { detail: { text } }))
  }
}

export function forgetDraft() {
  sessionStorage.removeItem(DRAFT)
}

export const hasDraft = () => Boolean(sessionStorage.getItem(DRAFT)?.trim())

customElements.define("chat-composer", ChatComposer)
