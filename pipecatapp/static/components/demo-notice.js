import { get } from "../api.js"
import { h } from "../dom.js"

const CLOSED = "hearth.demo-notice"

/** <demo-notice>: says that the served model is the small one of every installation, until a person closes it. */
class DemoNotice extends HTMLElement {
  async connectedCallback() {
    if (localStorage.getItem(CLOSED) === "closed") return
    const list = await get("/api/models").catch(() => null) // a key without the right to change models sees no notice
    if (!list?.demo || !list.suggested || !this.isConnected) return
    const served = list.models.find(({ in_use: inUse }) => inUse)
    const better = list.models.find(({ name }) => name === list.suggested)
    const close = h("button", { type: "button", class: "link-button", testid: "demo-close", onclick: () => this.#close() }, "Not now")
    this.replaceChildren(h("aside", { class: "demo-notice", "aria-label": "About the model", testid: "demo-notice" }, h("p", {}, `${served.name} answers, a demo model with ${served.parameters} parameters. ${better.name} (${better.parameters}) fits this machine.`), h("a", { class: "button", href: "#/models", testid: "demo-link" }, "Get a better model"), close))
  }

  #close() {
    localStorage.setItem(CLOSED, "closed")
    this.replaceChildren()
  }
}

customElements.define("demo-notice", DemoNotice)
