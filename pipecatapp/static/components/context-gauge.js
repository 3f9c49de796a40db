import { h } from "../dom.js"

const number = (value) => value.toLocaleString("en")

/** <context-gauge>: how much of the model's context the conversation uses. `show({model, used, size})`; null hides it. */
class ContextGauge extends HTMLElement {
  show(use) {
    this.hidden = !use
    const told = JSON.stringify(use)
    if (!use || told === this.dataset.use) return
    this.dataset.use = told
    const share = use.size ? Math.min(1, use.used / use.size) : null
    const words = use.size ? `${number(use.used)} of ${number(use.size)} tokens of the context of ${use.model} are used` : `${number(use.used)} tokens are used; the size of the context of ${use.model} is not known`
    this.title = words
    const meter = share !== null && h("meter", { min: "0", max: "1", low: "0.7", high: "0.9", optimum: "0", value: share, "aria-label": "Used part of the context" })
    this.replaceChildren(...[h("span", { "aria-hidden": "true" }, "Context"), meter, h("span", { testid: "context" }, share === null ? `${number(use.used)} tokens` : `${Math.round(100 * share)} %`), h("span", { class: "off-screen" }, words)].filter(Boolean))
    this.dataset.full = String(share !== null && share > 0.9)
  }
}

customElements.define("context-gauge", ContextGauge)
