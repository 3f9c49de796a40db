import { get } from "../api.js"
import { emptyState, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { icon } from "../icons.js"

/** Lines that the page keeps, twice as many while text in them is selected; the files keep more. */
const MOST = 2000

/** The levels that a choice shows; the empty one shows all. */
const LEVELS = { warning: ["warning", "error", "critical"], error: ["error", "critical"] }

/** What the services write, as they write it: filter it, hold it still, clear it away. */
class LogsPage extends HTMLElement {
  #lines = []
  #after = ""
  #levels = new Map() // service → the level of its last line
  #services = ""
  #paused = false
  #stop = () => {}

  connectedCallback() {
    this.search = h("input", { type: "search", "aria-label": "Only lines with", placeholder: "Only lines with", testid: "logs-filter", oninput: this.#show })
    this.service = h("select", { "aria-label": "Service", testid: "logs-service", onchange: this.#show }, h("option", { value: "" }, "Any service"))
    this.level = h("select", { "aria-label": "Level", testid: "logs-level", onchange: this.#show }, h("option", { value: "" }, "Any level"), h("option", { value: "warning" }, "Warnings and errors"), h("option", { value: "error" }, "Errors"))
    this.pause = h("button", { type: "button", class: "button", "aria-pressed": "false", testid: "logs-pause", onclick: this.#hold }, "Pause")
    const clear = h("button", { type: "button", class: "button", testid: "logs-clear", onclick: this.#clear }, "Clear")
    const download = h("button", { type: "button", class: "button", testid: "logs-download", onclick: this.#download }, "Download")
    const filters = h("div", { class: "filters" }, h("div", { class: "search" }, icon("search"), this.search), this.service, this.level, this.pause, clear, download)
    this.note = h("div", { class: "note-slot" })
    this.list = h("ol", {})
    this.view = h("div", { class: "logs", role: "log", "aria-label": "Lines", tabindex: "0", testid: "logs" }, this.list)
    this.replaceChildren(systemHead("logs"), filters, this.note, this.view)
    this.#stop = every(1, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    if (this.#paused) return
    try {
      const { services, lines } = await get(`/api/logs?after=${encodeURIComponent(this.#after)}`)
      this.#offer(services)
      this.note.replaceChildren(...(services.length ? [] : [emptyState("list", "No service writes its log here", "On a cluster Nomad keeps the logs: the status page leads to it.")]))
      if (!lines.length || this.#paused) return
      this.#after = lines.at(-1).moment
      this.#append(lines)
    } catch (error) {
      this.note.replaceChildren(problem("The logs cannot be read", error.message))
    }
  }

  #offer(services) {
    if (services.join() === this.#services) return
    this.#services = services.join()
    const chosen = this.service.value
    this.service.replaceChildren(h("option", { value: "" }, "Any service"), ...services.map((name) => h("option", { value: name }, name)))
    this.service.value = services.includes(chosen) ? chosen : ""
  }

  /** Show the lines that pass the filter, after a change of it. */
  #show = () => {
    this.list.replaceChildren(...this.#lines.filter(this.#passes).map(({ element }) => element))
    this.view.scrollTo(0, this.view.scrollHeight)
  }

  /** Adds lines behind the others, whose elements stay: a selection of text in them is kept. */
  #append(lines) {
    const atEnd = this.view.scrollTop + this.view.clientHeight >= this.view.scrollHeight - 40
    const selecting = this.#selecting()
    const added = lines.slice(-MOST).map((each) => ({ ...each, level: this.#level(each), element: line(each) }))
    this.#lines.push(...added)
    this.list.append(...added.filter(this.#passes).map(({ element }) => element))
    const most = selecting ? 2 * MOST : MOST
    for (const { element } of this.#lines.splice(0, Math.max(0, this.#lines.length - most))) element.remove()
    if (atEnd && !selecting) this.view.scrollTo(0, this.view.scrollHeight)
  }

  /** The level of a line. One without its own, such as a part of a traceback, has that of the line before it. */
  #level({ service, text }) {
    const level = /\blevel=(\w+)/.exec(text)?.[1] ?? this.#levels.get(service) ?? "info"
    this.#levels.set(service, level)
    return level
  }

  #passes = ({ service, text, level }) => (!this.service.value || service === this.service.value) && (LEVELS[this.level.value]?.includes(level) ?? true) && text.toLowerCase().includes(this.search.value.toLowerCase())

  #selecting() {
    const selection = getSelection()
    return !selection.isCollapsed && selection.containsNode(this.list, true)
  }

  #hold = () => {
    this.#paused = !this.#paused
    this.pause.setAttribute("aria-pressed", String(this.#paused))
  }

  /** Saves the lines that are shown as a text file. */
  #download = () => {
    const text = this.#lines.filter(this.#passes).map((each) => `${each.moment} ${each.service} ${each.text}\n`).join("")
    const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }))
    h("a", { href: address, download: "hearth-logs.txt" }).click()
    setTimeout(() => URL.revokeObjectURL(address))
  }

  /** From here on: what was written stays in the files. */
  #clear = () => {
    this.#lines = []
    this.#show()
    announce("The lines are cleared.")
  }
}

const line = ({ moment, service, text }) => h("li", { testid: "log-line" }, h("time", { datetime: moment }, new Date(moment).toLocaleTimeString()), h("span", { class: "log-service" }, service), h("span", { class: "log-text" }, text))

customElements.define("logs-page", LogsPage)
