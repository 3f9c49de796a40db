import "../components/state-badge.js"
import "../components/time-since.js"
import { get } from "../api.js"
import { loading, problem } from "../components/notice.js"
import { h } from "../dom.js"
import { every } from "../events.js"
import { stateIcon } from "../icons.js"

/** How the services and experts are, in words; refreshes itself. */
class StatusPage extends HTMLElement {
  #stop = () => {}
  #key = ""

  connectedCallback() {
    this.note = h("div", { class: "note-slot" }, loading(4))
    this.content = h("div", { class: "status-content" })
    this.fresh = h("p", { class: "fine", role: "status", testid: "freshness" })
    this.replaceChildren(h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Status"), this.fresh), this.note, this.content)
    this.#stop = every(3, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    try {
      const status = await get("/api/status")
      this.note.replaceChildren()
      this.fresh.textContent = `Hearth ${status.version} · refreshes by itself`
      const key = JSON.stringify(status)
      if (key !== this.#key) this.#show(status)
      this.#key = key
    } catch (error) {
      this.fresh.textContent = this.#key ? "Shown below is the last known state" : ""
      this.note.replaceChildren(problem("The status cannot be read", error.message))
    }
  }

  #show({ services, experts, agent }) {
    const ill = [...services, ...experts].filter((each) => !each.healthy).length
    const words = ill ? `${ill} of ${services.length + experts.length} need attention` : "Everything is working"
    const busy = agent.runs_running === 1 ? "1 run in progress" : `${agent.runs_running || "No"} runs in progress`
    const banner = h("div", { class: "banner", dataset: { state: ill ? "failed" : "done" }, testid: "summary" }, stateIcon(ill ? "failed" : "done"), h("div", {}, h("strong", {}, words), h("p", {}, busy)))
    this.content.replaceChildren(
      banner,
      table("Services", "services", ["Name", "Health", "Since", "Detail"], services.map(service)),
      experts.length ? table("Experts", "experts", ["Name", "Health", "Model", "Detail"], experts.map(expert)) : h("section", {}, h("h2", {}, "Experts"), h("p", { class: "quiet" }, "No expert is known. The gateway tells which ones there are; is it running?")),
    )
  }
}

const health = (healthy) => h("state-badge", { state: healthy ? "done" : "failed", words: healthy ? "Healthy" : "Not healthy" })
const cell = (name, ...content) => h("td", { dataset: { name } }, ...content)

function service({ name, url, healthy, since, detail }) {
  return [h("th", { scope: "row" }, name, url && h("span", { class: "fine" }, url)), cell("health", health(healthy)), cell("since", since ? h("time-since", { at: since, full: true }) : h("span", { class: "fine" }, "unknown")), cell("detail", detail || (healthy ? "Ready" : "No answer"))]
}

function expert({ name, model, healthy, reason }) {
  return [h("th", { scope: "row" }, name), cell("health", health(healthy)), cell("model", model || h("span", { class: "fine" }, "none loaded")), cell("detail", reason || (healthy ? "Ready" : "No answer"))]
}

function table(title, testid, columns, rows) {
  const head = h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name))))
  return h("section", {}, h("h2", { id: `${testid}-title` }, title), h("table", { class: "table status-table", testid, "aria-labelledby": `${testid}-title` }, head, h("tbody", {}, rows.map((cells) => h("tr", {}, cells)))))
}

customElements.define("status-page", StatusPage)
