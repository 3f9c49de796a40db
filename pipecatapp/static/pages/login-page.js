import { signIn } from "../api.js"
import { hasDraft } from "../components/chat-composer.js"
import { h } from "../dom.js"
import { flame, icon } from "../icons.js"

/** <login-page expired>: the key, once; the browser keeps a session. `expired` says why it is asked for again. Tells "signed-in". */
class LoginPage extends HTMLElement {
  connectedCallback() {
    this.field = h("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", spellcheck: "false", autocapitalize: "off", "aria-describedby": "key-hint key-fault", testid: "key", required: true })
    this.fault = h("p", { class: "fault", id: "key-fault", role: "alert", testid: "login-error" })
    this.button = h("button", { type: "submit", class: "button primary wide", testid: "sign-in" }, "Sign in")
    const see = h("button", { type: "button", class: "icon-button small", "aria-label": "Show key", "aria-pressed": "false", title: "Show key", onclick: () => this.#see(see) }, icon("eye"))
    const hint = h("p", { class: "hint", id: "key-hint" }, "It was printed when Hearth started. ", h("code", {}, "hearth status"), " tells which file holds it.")
    const form = h("form", { class: "login-form", novalidate: true, onsubmit: this.#submit }, h("label", { for: "key" }, "Key"), h("div", { class: "with-button" }, this.field, see), this.fault, hint, this.button)
    this.replaceChildren(h("main", { class: "login", id: "main" }, h("div", { class: "login-card" }, h("div", { class: "login-mark" }, flame()), h("h1", {}, "Welcome to Hearth"), h("p", { class: "quiet" }, "The private AI of this home."), this.hasAttribute("expired") && this.#expired(), form)))
    this.field.focus()
  }

  #expired() {
    const kept = hasDraft() && " The message that you were writing is kept."
    return h("p", { class: "login-reason", role: "status", testid: "login-reason" }, "Your session has ended. Sign in again to continue.", kept)
  }

  #see(button) {
    const hidden = this.field.type === "password"
    this.field.type = hidden ? "text" : "password"
    button.setAttribute("aria-pressed", String(hidden))
  }

  #submit = async (event) => {
    event.preventDefault()
    const key = this.field.value.trim()
    if (!key) return this.#refuse("Enter the key first.")
    this.button.disabled = true
    try {
      await signIn(key)
      this.dispatchEvent(new Event("signed-in", { bubbles: true }))
    } catch (error) {
      this.#refuse(error.status === 401 ? "That is not the key of this Hearth. Look for a missing or an extra character." : error.message)
    }
    this.button.disabled = false
  }

  #refuse(reason) {
    this.fault.textContent = reason
    this.field.setAttribute("aria-invalid", "true")
    this.field.focus()
    this.field.select()
  }
}

customElements.define("login-page", LoginPage)
