import { announce, h } from "../dom.js"
import { icon } from "../icons.js"

const NEXT = { auto: "light", light: "dark", dark: "auto" }
const NAMES = { auto: "Same as system", light: "Light", dark: "Dark" }

/** <theme-toggle>: system, light, dark; remembered in this browser. */
class ThemeToggle extends HTMLElement {
  connectedCallback() {
    this.button = h("button", { type: "button", class: "rail-button", testid: "theme", onclick: () => this.#choose(NEXT[this.#theme]) })
    this.replaceChildren(this.button)
    this.#show()
  }

  get #theme() {
    return document.documentElement.dataset.theme ?? "auto"
  }

  #choose(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
    localStorage.setItem("hearth.theme", theme)
    this.#show()
    announce(`Theme: ${NAMES[theme]}`)
  }

  #show() {
    this.button.replaceChildren(icon(this.#theme), h("span", {}, "Theme"))
    this.button.setAttribute("aria-label", `Theme: ${NAMES[this.#theme]}. Change`)
    this.button.title = `Theme: ${NAMES[this.#theme]}`
  }
}

customElements.define("theme-toggle", ThemeToggle)
