// The frame around all pages: session, routes, navigation.
import "./components/theme-toggle.js"
import "./pages/chat-page.js"
import "./pages/compare-page.js"
import "./pages/editor-page.js"
import "./pages/evolution-page.js"
import "./pages/explore-page.js"
import "./pages/knowledge-page.js"
import "./pages/login-page.js"
import "./pages/logs-page.js"
import "./pages/machines-page.js"
import "./pages/models-page.js"
import "./pages/notes-page.js"
import "./pages/people-page.js"
import "./pages/run-page.js"
import "./pages/runs-page.js"
import "./pages/status-page.js"
import "./pages/talk-page.js"
import "./pages/tool-page.js"
import "./pages/tools-page.js"
import "./pages/triggers-page.js"
import "./pages/workflow-page.js"
import "./pages/workflows-page.js"
import { signOut, signedIn } from "./api.js"
import { forgetAll } from "./conversation.js"
import { h } from "./dom.js"
import { forgetDrafts } from "./drafts.js"
import { flame, icon } from "./icons.js"
import { match, setTitle, setTitleCount } from "./router.js"
import { waiting } from "./waiting.js"

const SECTIONS = [
  ["chat", "Chat"],
  ["talk", "Talk"],
  ["runs", "Runs"],
  ["workflows", "Workflows"],
  ["status", "System"],
]

/** <hearth-app>: the sign-in while there is no session, then the page of the address. */
class HearthApp extends HTMLElement {
  connectedCallback() {
    this.announcer = h("div", { id: "announcer", class: "off-screen", role: "status" })
    this.addEventListener("signed-in", () => this.#enter())
    window.addEventListener("session-lost", () => this.#leave({ expired: true }))
    waiting.addEventListener("change", () => this.#badge())
    window.addEventListener("hashchange", () => this.main && this.#route({ moved: true }))
    if (signedIn()) this.#enter()
    else this.#leave()
  }

  #leave({ expired = false } = {}) {
    if (this.querySelector("login-page")) return
    forgetAll()
    waiting.unwatch()
    this.main = null
    setTitle("Sign in")
    this.replaceChildren(h("login-page", { expired }), this.announcer)
  }

  #enter() {
    this.main = h("main", { id: "main", tabindex: "-1" })
    const skip = h("a", { class: "skip", href: "#main", onclick: this.#skip }, "Skip to content")
    const links = SECTIONS.map(([name, title]) => h("a", { class: "rail-button", href: `#/${name}`, dataset: { section: name }, testid: `nav-${name}` }, icon(name), h("span", {}, title)))
    const out = h("button", { type: "button", class: "rail-button", testid: "sign-out", title: "Sign out", onclick: this.#signOut }, icon("leave"), h("span", {}, "Sign out"))
    const home = h("a", { class: "rail-home", href: "#/chat", "aria-label": "Hearth, home" }, flame())
    this.nav = h("nav", { class: "rail", "aria-label": "Main" }, home, h("div", { class: "rail-links" }, links), h("div", { class: "rail-end" }, h("theme-toggle"), out))
    this.replaceChildren(skip, this.nav, this.main, this.announcer)
    waiting.watch()
    this.#badge()
    this.#route({ moved: false })
  }

  /** How many questions wait for a person: those of conversations at the chat, the others at the runs. */
  #badge() {
    setTitleCount(waiting.runs.length)
    const counts = { chat: waiting.runs.filter((run) => run.conversation).length }
    counts.runs = waiting.runs.length - counts.chat
    for (const link of this.querySelectorAll(".rail [data-section]")) {
      link.querySelector(".count-badge")?.remove()
      const count = counts[link.dataset.section]
      if (count) link.append(h("span", { class: "count-badge", testid: "badge" }, String(count), h("span", { class: "off-screen" }, count === 1 ? " question waits for you" : " questions wait for you")))
    }
  }

  #route({ moved }) {
    if (location.hash && !location.hash.startsWith("#/")) return
    const found = match(location.hash) ?? { page: null, title: "Not found", section: "", params: {} }
    setTitle(found.title)
    for (const link of this.nav.querySelectorAll("[data-section]")) {
      if (link.dataset.section === found.section) link.setAttribute("aria-current", "page")
      else link.removeAttribute("aria-current")
    }
    this.#show(found)
    if (moved && !this.main.contains(document.activeElement)) this.main.querySelector("h1")?.focus({ preventScroll: true })
  }

  #show({ page, section, params }) {
    const present = this.main.firstElementChild
    this.main.dataset.section = section
    if (page && present?.localName === page && present.enter) return present.enter(params)
    const element = page ? Object.assign(document.createElement(page), { params }) : notFound()
    this.main.replaceChildren(element)
    return this.main.scrollTo(0, 0)
  }

  #skip = (event) => {
    event.preventDefault()
    this.main.focus()
  }

  #signOut = async () => {
    await signOut().catch(() => {}) // the server may be gone; this browser forgets the session all the same
    forgetDrafts()
    this.#leave()
  }
}

function notFound() {
  return h("div", { class: "empty" }, icon("search"), h("h1", { tabindex: "-1" }, "There is no such page"), h("p", {}, "The address may be old, or a letter is missing."), h("a", { class: "button primary", href: "#/chat" }, "Go to the chat"))
}

customElements.define("hearth-app", HearthApp)
